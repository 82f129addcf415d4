"""The settings of a connection: SET, SHOW and RESET."""

from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from ctsql.catalog.errors import CtsqlError, bad_option, error, not_supported
from ctsql.catalog.names import did_you_mean, fold
from ctsql.catalog.refreshes import parse_interval
from ctsql.catalog.switches import read_switch
from ctsql.planner.syntax.ast import ResetSetting, SetSetting, ShowSetting
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.result_settings import changes_results
from ctsql.runtime.spark.start.session import reset_setting

STRICT, STORED = "strict serializable", "serializable"
ISOLATION = "isolation"
READ_ONLY = "read_only"
TICK = "tick_interval"
DEFAULTS = {ISOLATION: STRICT, TICK: "0"}
DESCRIPTIONS = {
    ISOLATION: f"'{STRICT}': reads see everything that is committed; '{STORED}': reads see what "
    "tasks and views have stored, without waiting",
    TICK: "'1 second', for example: commits within a second share a T, if this connection binds "
    "them; 0: each has its own T",
    READ_ONLY: "true: nothing is written, and missing results are computed in memory; "
    "false: the connection writes, and cannot become read-only again",
}
_ZONE = "time zone"
FIXED = {
    _ZONE: "Times are UTC everywhere, so that a task writes the same rows on every machine.",
    "spark.sql.session.timezone": "Times are UTC everywhere.",
    "spark.sql.ansi.enabled": "Without ANSI rules, errors in the data silently become NULL.",
}
_CHANGES_RESULTS = (
    "It changes the rows of queries, and a definition must give the same rows in every process."
)


@dataclass(slots=True)
class Settings:
    """Names and values; Spark's own settings are those of the engine's session."""

    values: dict[str, str] = field(default_factory=lambda: dict(DEFAULTS))
    read_only: bool = False

    @property
    def strict(self) -> bool:
        """Whether reads are strictly serializable."""
        return self.values[ISOLATION] == STRICT

    @property
    def tick_ms(self) -> int:
        """The length of the intervals whose commits share a T; 0 for none."""
        length = parse_interval(self.values[TICK]) if self.values[TICK] != "0" else 0
        assert isinstance(length, int)  # set() has checked it
        return length

    def set(self, statement: SetSetting, session: SparkSession) -> None:
        """SET name = value."""
        name = fold(statement.name)
        if _is_fixed(name):
            raise _fixed(statement, name)
        if name.startswith("spark."):
            with translate_spark_errors(None, statement.span):
                session.conf.set(statement.name, statement.value)
            return
        if name == READ_ONLY:
            self._set_read_only(statement)
            return
        if name not in DEFAULTS:
            raise self._unknown(statement.name, statement)
        if name == TICK:
            self.values[name] = _tick(statement)
            return
        value = " ".join(statement.value.replace("-", " ").replace("_", " ").lower().split())
        if value not in (STRICT, STORED):
            hint = f"Type: SET isolation = '{STRICT}' or SET isolation = '{STORED}'"
            raise _bad_value(statement, ISOLATION, hint)
        self.values[name] = value

    def _set_read_only(self, statement: SetSetting) -> None:
        read_only = read_switch(statement.value)
        if read_only is None:
            hint = f"Type: SET {READ_ONLY} = false"
            raise bad_option(statement.value_span, READ_ONLY, "", hint=hint)
        if read_only and not self.read_only:
            what = "going back to read-only"
            why = "A connection that writes may have written."
            hint = "Open another connection with --read-only, or connect(read_only=True)."
            raise not_supported(statement.span, what, why=why, hint=hint)
        self.read_only = read_only

    def _unknown(self, name: str, statement: SetSetting | ShowSetting | ResetSetting) -> Exception:
        return error(
            "UNKNOWN_SETTING",
            span=statement.name_span,
            name=name,
            hint=did_you_mean(name, DESCRIPTIONS, otherwise="SHOW ALL lists the settings."),
        )

    def show(self, statement: ShowSetting, session: SparkSession) -> list[tuple[object, ...]]:
        """SHOW name, SHOW ALL: (name, value, description)."""
        values = {**self.values, READ_ONLY: str(self.read_only).lower()}
        if statement.name is None:
            return [(k, v, DESCRIPTIONS[k]) for k, v in sorted(values.items())]
        name = fold(statement.name)
        if name.startswith("spark.") or name in FIXED:
            key = "spark.sql.session.timeZone" if name == _ZONE else statement.name
            return [(statement.name, session.conf.get(key, None), "a setting of Spark")]
        if name not in values:
            raise self._unknown(statement.name, statement)
        return [(name, values[name], DESCRIPTIONS[name])]

    def reset(self, statement: ResetSetting, session: SparkSession) -> None:
        """RESET name, RESET ALL; read_only is unchanged."""
        if statement.name is None:
            self.values = dict(DEFAULTS)
            return
        name = fold(statement.name)
        if _is_fixed(name):
            return  # it has its initial value
        if name.startswith("spark."):
            reset_setting(session, statement.name)
        elif name in DEFAULTS:
            self.values[name] = DEFAULTS[name]
        elif name != READ_ONLY:
            raise self._unknown(statement.name, statement)


def _is_fixed(name: str) -> bool:
    return name in FIXED or changes_results(name)


def _fixed(statement: SetSetting, name: str) -> CtsqlError:
    """The error for a setting that cannot be set."""
    hint = ""
    if "zone" in name:
        hint = "Convert in the query, with from_utc_timestamp() for example."
    elif name not in FIXED:
        hint = (
            "Write it in the query, for example with another function. Or read the data with "
            "con.spark, a session with its own settings, and append it with con.append."
        )
    why = FIXED.get(name, _CHANGES_RESULTS)
    return not_supported(statement.name_span, f'setting "{statement.name}"', why=why, hint=hint)


def _tick(statement: SetSetting) -> str:
    length = 0 if statement.value.strip() == "0" else parse_interval(statement.value)
    if isinstance(length, str):
        hint = f"Type: SET {TICK} = '1 second' or SET {TICK} = 0"
        raise _bad_value(statement, TICK, hint, length)
    return statement.value.strip() if length else "0"


def _bad_value(statement: SetSetting, option: str, hint: str, detail: str = "") -> CtsqlError:
    value = f"'{statement.value}'"
    return bad_option(statement.value_span, option, detail, value=value, hint=hint)
