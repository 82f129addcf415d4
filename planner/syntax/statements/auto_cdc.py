"""``CREATE FLOW f AS AUTO CDC INTO target``: change events applied by key, in order of a sequence.

A flow is two ordinary objects. The continual task `f` stores the *state* that late and unordered
events need. The materialized view `target` shows their result, a function of the *set* of events
alone:

[total-order] events of one key are ordered by their sequence value; among equal values a delete is
    last, then the greatest columns. So no two different events are equal in order.
[last-event-decides] SCD type 1: the last event of a key decides; after a delete there is no row.
    The state keeps a row for a deleted key; without it an older, late event would restore the key.
[versions-open-and-end] SCD type 2: an event that is no delete and changes a tracked column opens a
    version; it ends where the next version or a delete begins. Untracked columns have the values of
    the last event of the version. The state keeps a row for each event.
[nulls-are-ignored] with IGNORE NULL UPDATES a column has its last non-NULL value after the key's
    last delete.
[null-sequence-fails] a NULL sequence value fails the task at that T. A NULL key is an ordinary
    value.

Source: Databricks' and Apache Spark's reference of AUTO CDC INTO for the meaning of the clauses;
the order of events with equal sequence values and the state are our choice.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ctsql.catalog import schemas
from ctsql.catalog.errors import invalid, not_supported
from ctsql.catalog.names import backtick, fold
from ctsql.catalog.schemas import Column, quote_text
from ctsql.catalog.spans import Span
from ctsql.planner.syntax.ast import ColumnList, CreateFlow
from ctsql.planner.syntax.tokens.tokenizer import tokenise

SEQUENCE, DELETED, UPDATED = "__SEQUENCE", "__DELETED", "__UPDATED_AT"
START, END = "__START_AT", "__END_AT"
EVENT, SEQUENCES, DELETED_AT = "__EVENT", "__SEQUENCES", "__DELETED_AT"
NO_SEQUENCE = "an event has no sequence value"


@dataclass(frozen=True, slots=True)
class FlowTexts:
    """The statements that a flow is compiled to."""

    task: str
    view: str


def compile_flow(
    flow: CreateFlow, columns: Sequence[Column], sequence_type: str, view_name: str
) -> FlowTexts:
    """Compile a flow; raises UNKNOWN_COLUMN, INVALID_STATEMENT for a clause with wrong columns.

    Args:
        columns: the source's. sequence_type: of SEQUENCE BY, in Spark's spelling. view_name: the
            task's name in the view's text.
    """
    target_columns = _choose(flow.columns, columns)
    keys = _find_columns(flow.keys, flow.keys_span, columns)
    names = {fold(c.name) for c in target_columns}
    for key in keys:
        if fold(key.name) not in names:
            raise invalid(
                flow.columns.span if flow.columns else flow.keys_span,
                f'key column "{key.name}" is not among the columns of the target',
                "A row of the target is found by its key.",
                f"Add {key.name} to COLUMNS.",
            )
    form: type[_Form] = _Scd1Partial if flow.ignore_nulls else _Scd1
    if flow.scd_type == 2:
        form = _Scd2
    return form(flow, keys, target_columns, sequence_type, columns).texts(view_name)


def comment_above(origin: str, text: str) -> str:
    r"""The compiled text below its origin, as a comment.

    >>> print(comment_above("CREATE FLOW f\n  AS ...", "CREATE ..."))
    -- Made by:
    --   CREATE FLOW f
    --     AS ...
    CREATE ...
    """
    lines = [f"--   {line}".rstrip() for line in origin.strip().splitlines()]
    return "\n".join(["-- Made by:", *lines, text])


def _find_columns(names: Iterable[str], span: Span, columns: Sequence[Column]) -> list[Column]:
    heading = "The source has the columns"
    return [schemas.get(columns, name, span=span, heading=heading) for name in names]


def _choose(column_list: ColumnList | None, columns: Sequence[Column]) -> list[Column]:
    if column_list is None:
        return list(columns)
    listed_columns = _find_columns(column_list.names, column_list.span, columns)
    return (
        [c for c in columns if c not in listed_columns] if column_list.without else listed_columns
    )


def on_one_line(expression: Span) -> str:
    """An expression without comments and line breaks; NOT_SUPPORTED: a string has one."""
    parts: list[str] = []
    stop = expression.start
    for token in tokenise(expression):
        if "\n" in token.span.text:
            raise not_supported(
                token.span, "a line break in a string of AUTO CDC", hint="Write \\n instead."
            )
        parts.append((" " if token.start > stop else "") + token.span.text)
        stop = token.stop
    return "".join(parts).strip()


def order_terms(column: str, kind: str) -> list[str]:
    """Expressions that differ for any two values of a type, and order them the same everywhere."""
    as_text = f"to_json(struct({column}))"
    if "map<" in kind or "variant" in kind:
        return [as_text]
    if "<" in kind:
        return [column, as_text]
    if kind in ("float", "double"):
        return [column, f"CAST({column} AS STRING)"]  # 0.0 and -0.0 are equal, their texts are not
    return [column]


def struct(terms: Iterable[str]) -> str:
    """A struct of expressions; two of the same expressions' types can be compared."""
    return "named_struct(" + ", ".join(f"'f{i}', {t}" for i, t in enumerate(terms)) + ")"


class _Form:
    def __init__(
        self,
        flow: CreateFlow,
        keys: list[Column],
        target_columns: list[Column],
        sequence_type: str,
        columns: Sequence[Column],
    ) -> None:
        self.flow = flow
        self.keys = [backtick(k.name) for k in keys]
        key_names = {fold(k.name) for k in keys}
        self.values = [c for c in target_columns if fold(c.name) not in key_names]
        self.target_columns = target_columns
        self.sequence_type = sequence_type
        self.source = flow.source.span.text
        self.state = flow.name.span.text
        tracked_columns = _choose(flow.tracked_columns, columns)
        self.tracked_columns = [c for c in self.values if c in tracked_columns]
        self.names = [backtick(c.name) for c in target_columns]

    def by_key(self, one: str, other: str, *more: str) -> str:
        """The condition that two relations have the same key."""
        return " AND ".join(f"{one}.{k} <=> {other}.{k}" for k in [*self.keys, *more])

    def event_order(self, of: str = "") -> list[str]:
        """The terms that order the events of a key [total-order]."""
        return [f"{of}{SEQUENCE}", f"{of}{DELETED}", *self.value_terms(self.values, of)]

    def value_terms(self, columns: Iterable[Column], of: str = "") -> list[str]:
        """Expressions that differ for any two rows that differ in these columns."""
        return [t for c in columns for t in order_terms(of + backtick(c.name), c.type)]

    def events(self) -> str:
        """The events of one T; a delete has only the values of its key."""
        sequence = f"coalesce({on_one_line(self.flow.sequence)}, raise_error('{NO_SEQUENCE}'))"
        when = self.flow.delete_when
        if when is None:
            return (
                f"SELECT {', '.join(self.names)}, {sequence} AS {SEQUENCE}, "
                f"false AS {DELETED} FROM {self.source}"
            )
        items = [n if n in self.keys else f"IF({DELETED}, NULL, {n}) AS {n}" for n in self.names]
        return (
            f"SELECT {', '.join(items)}, {SEQUENCE}, {DELETED} FROM (SELECT "
            f"{', '.join(self.names)}, {sequence} AS {SEQUENCE}, "
            f"coalesce({on_one_line(when)}, false) AS {DELETED} FROM {self.source})"
        )

    def has_events(self) -> str:
        """The condition that the key of ``__o`` has events at this T."""
        return f"EXISTS (SELECT 1 FROM ({self.events()}) AS __e WHERE {self.by_key('__e', '__o')})"

    def state_columns(self) -> list[tuple[str, str]]:
        """The state's columns beyond the target's own: name and type."""
        raise NotImplementedError

    def body(self) -> list[str]:
        raise NotImplementedError

    def view_query(self) -> tuple[list[str], str]:
        return self.names, f"NOT {DELETED}"

    def replace_rows(self, rows: str, identity: Sequence[str], terms: Sequence[str]) -> list[str]:
        """Statements that insert rows that differ from the state's and delete those they replace.

        Args:
            rows: a query of the wanted state for the keys with events. identity: the columns,
                besides the key, by which a row replaces another. terms: those in which they may
                differ; each holds ``{of}`` for the relation.
        """
        same = struct(t.format(of="__o.") for t in terms)
        new = struct(t.format(of="__r.") for t in terms)
        return [
            f"INSERT INTO {self.state}\n    SELECT __r.*, now() AS {UPDATED} FROM (\n"
            f"{_indent(rows, 8)}\n    ) AS __r\n    WHERE NOT EXISTS (\n"
            f"        SELECT 1 FROM {self.state} AS __o\n"
            f"        WHERE {self.by_key('__o', '__r', *identity)}\n"
            f"        AND {same} <=> {new}\n    )",
            f"DELETE FROM {self.state} AS __o WHERE __o.{UPDATED} < now() AND EXISTS (\n"
            f"        SELECT 1 FROM {self.state} AS __n\n        WHERE __n.{UPDATED} = now()\n"
            f"        AND {self.by_key('__n', '__o', *identity)}\n    )",
        ]

    def texts(self, view_name: str) -> FlowTexts:
        quiet = "IF NOT EXISTS " if self.flow.if_not_exists else ""
        columns = [(backtick(c.name), c.type) for c in self.target_columns] + self.state_columns()
        comment = _indent(comment_above(self.flow.span.text, ""), 4).rstrip()
        body = ";\n".join("    " + statement for statement in self.body())
        task = (
            f"CREATE CONTINUAL TASK {quiet}{self.state} (\n    "
            + ",\n    ".join(f"{name} {kind}" for name, kind in columns)
            + f"\n) ON INPUT {self.source} AS (\n{comment}\n{body}\n)"
        )
        select_list, condition = self.view_query()
        view = (
            f"CREATE MATERIALIZED VIEW {quiet}{self.flow.target.span.text} AS\n"
            f"SELECT {', '.join(select_list)}\nFROM {view_name}\nWHERE {condition}"
        )
        return FlowTexts(task, view)


class _Scd1(_Form):
    """The state of a key is its last event."""

    def state_columns(self) -> list[tuple[str, str]]:
        return [(SEQUENCE, self.sequence_type), (DELETED, "BOOLEAN")]

    def body(self) -> list[str]:
        events = self.events()
        later = f"{struct(self.event_order('__e.'))} > {struct(self.event_order('__o.'))}"
        order = ", ".join(f"{term} DESC" for term in self.event_order())
        return [
            f"DELETE FROM {self.state} AS __o WHERE EXISTS (\n"
            f"        SELECT 1 FROM (\n{_indent(events, 12)}\n        ) AS __e\n"
            f"        WHERE {self.by_key('__e', '__o')}\n        AND {later}\n    )",
            f"INSERT INTO {self.state}\n"
            f"    SELECT {', '.join(self.names)}, {SEQUENCE}, {DELETED} FROM (\n"
            f"        SELECT *, row_number() OVER (\n"
            f"            PARTITION BY {', '.join(self.keys)} ORDER BY {order}\n"
            f"        ) AS __rank FROM (\n{_indent(events, 12)}\n        )\n    ) AS __e\n"
            f"    WHERE __rank = 1 AND NOT EXISTS (\n        SELECT 1 FROM {self.state} AS __o "
            f"WHERE {self.by_key('__o', '__e')}\n    )",
        ]


class _Scd1Partial(_Form):
    """The state of a key is each column's last value, with its sequence value."""

    def state_columns(self) -> list[tuple[str, str]]:
        fields = ", ".join(f"{backtick(c.name)}: {self.sequence_type}" for c in self.values)
        columns = [(SEQUENCE, self.sequence_type), (DELETED_AT, self.sequence_type)]
        if fields:
            columns.append((SEQUENCES, f"STRUCT<{fields}>"))
        return [*columns, (DELETED, "BOOLEAN"), (UPDATED, "TIMESTAMP")]

    def body(self) -> list[str]:
        terms = ["{of}" + SEQUENCE, "{of}" + DELETED_AT]
        terms += self.value_terms(self.values, "{of}")
        terms += [f"{{of}}{SEQUENCES}.{backtick(c.name)}" for c in self.values]
        return self.replace_rows(self._merge(), [], terms)

    def _merge(self) -> str:
        from_event, from_state, merges, exprs, since = [], [], [], [], []
        for i, column in enumerate(self.values):
            name = backtick(column.name)
            order = order_terms(name, column.type)
            last = struct([SEQUENCE, *order])
            last_stored = struct([f"{SEQUENCES}.{name}", *order])
            from_event.append(
                f"IF({DELETED} OR {name} IS NULL, NULL, {last}) AS __o{i}, "
                f"named_struct('s', {SEQUENCE}, 'v', {name}) AS __v{i}"
            )
            from_state.append(
                f"IF({SEQUENCES}.{name} IS NULL, NULL, {last_stored}) AS __o{i}, "
                f"named_struct('s', {SEQUENCES}.{name}, 'v', {name}) AS __v{i}"
            )
            merges.append(f"max_by(__v{i}, __o{i}) AS __v{i}")
            alive = f"{DELETED_AT} IS NULL OR __v{i}.s > {DELETED_AT}"
            exprs.append((name, f"IF({alive}, __v{i}.v, NULL) AS {name}"))
            since.append(f"{quote_text(column.name)}, IF({alive}, __v{i}.s, NULL)")
        keys = ", ".join(self.keys)
        both = (
            f"SELECT {', '.join([keys, *from_event])}, IF({DELETED}, NULL, {SEQUENCE}) AS __up, "
            f"IF({DELETED}, {SEQUENCE}, NULL) AS __gone\n"
            f"FROM (\n{_indent(self.events(), 4)}\n)\nUNION ALL\n"
            f"SELECT {', '.join([keys, *from_state])}, {SEQUENCE}, {DELETED_AT}\n"
            f"FROM {self.state} AS __o WHERE {self.has_events()}"
        )
        select_list = ", ".join(
            [keys, *merges, f"max(__up) AS {SEQUENCE}", f"max(__gone) AS {DELETED_AT}"]
        )
        of = dict(exprs)
        columns = [of.get(n, n) for n in self.names] + [SEQUENCE, DELETED_AT]
        if since:
            columns.append(f"named_struct({', '.join(since)}) AS {SEQUENCES}")
        alive = f"{SEQUENCE} IS NOT NULL AND ({DELETED_AT} IS NULL OR {SEQUENCE} > {DELETED_AT})"
        columns.append(f"NOT ({alive}) AS {DELETED}")
        return (
            f"SELECT {', '.join(columns)} FROM (\n    SELECT {select_list} FROM (\n"
            f"{_indent(both, 8)}\n    ) GROUP BY {keys}\n)"
        )


class _Scd2(_Form):
    """The state is a row for each event; the last one of a version shows it."""

    def state_columns(self) -> list[tuple[str, str]]:
        kind = self.sequence_type
        columns = [(START, kind), (END, kind), (SEQUENCE, kind), (DELETED, "BOOLEAN")]
        if self._partial:
            fields = ", ".join(f"{backtick(c.name)}: {c.type}" for c in self.values)
            columns.append((EVENT, f"STRUCT<{fields}>"))
        return [*columns, (UPDATED, "TIMESTAMP")]

    @property
    def _partial(self) -> bool:
        return self.flow.ignore_nulls and bool(self.values)

    def view_query(self) -> tuple[list[str], str]:
        return [*self.names, START, END], f"{START} IS NOT NULL"

    def body(self) -> list[str]:
        terms = [f"{{of}}{name}" for name in (START, END, DELETED)]
        terms += self.value_terms(self.values, "{of}")
        if self._partial:
            terms += [
                t
                for c in self.values
                for t in order_terms(f"{{of}}{EVENT}.{backtick(c.name)}", c.type)
            ]
        return self.replace_rows(self._versions(), [SEQUENCE], terms)

    def _versions(self) -> str:
        keys = ", ".join(self.keys)
        by_sequence = f"(PARTITION BY {keys} ORDER BY {SEQUENCE})"
        rows = self._events_of_keys()
        if self._partial:
            rows = self._fill(rows)
        values = struct(["true", *self.value_terms(self.tracked_columns)])
        rows = _add_columns(
            rows,
            f"NOT {DELETED} AND coalesce(lag({DELETED}) OVER {by_sequence}, true)"
            f" OR NOT {DELETED} AND NOT (lag({values}) OVER {by_sequence} <=> {values})"
            " AS __opens",
        )
        rows = _add_columns(rows, f"count_if(__opens OR {DELETED}) OVER {by_sequence} AS __version")
        rows = _add_columns(
            rows,
            f"min({SEQUENCE}) OVER (PARTITION BY {keys}, __version) AS __begin, "
            f"lead({SEQUENCE}) OVER {by_sequence} AS __next, "
            f"NOT {DELETED} AND NOT (lead(__version) OVER {by_sequence} <=> __version) AS __shown",
        )
        columns = [
            *self.names,
            f"IF(__shown, __begin, NULL) AS {START}",
            f"IF(__shown, __next, NULL) AS {END}",
            SEQUENCE,
            DELETED,
            *([EVENT] if self._partial else []),
        ]
        return f"SELECT {', '.join(columns)} FROM (\n{_indent(rows, 4)}\n)"

    def _events_of_keys(self) -> str:
        """All events of the keys that have one at this T, the old ones from the state."""
        stored_items = [
            f"{EVENT}.{n} AS {n}" if self._partial and n not in self.keys else n for n in self.names
        ]
        both = (
            f"{self.events()}\nUNION ALL\nSELECT {', '.join(stored_items)}, {SEQUENCE}, {DELETED}\n"
            f"FROM {self.state} AS __o WHERE {self.has_events()}"
        )
        order = ", ".join(f"{term} DESC" for term in self.event_order()[1:])
        keys = ", ".join([*self.keys, SEQUENCE])
        ranked_rows = _add_columns(
            both, f"row_number() OVER (PARTITION BY {keys} ORDER BY {order}) AS __rank"
        )
        return f"SELECT * FROM (\n{_indent(ranked_rows, 4)}\n) WHERE __rank = 1"

    def _fill(self, rows: str) -> str:
        """NULLs take the value before them, not past a delete; the event is kept in a column."""
        keys = ", ".join(self.keys)
        raw = ", ".join(f"{quote_text(c.name)}, {backtick(c.name)}" for c in self.values)
        rows = _add_columns(
            rows,
            f"named_struct({raw}) AS {EVENT}, count_if({DELETED}) OVER "
            f"(PARTITION BY {keys} ORDER BY {SEQUENCE}) AS __life",
        )
        window = f"(PARTITION BY {keys}, __life ORDER BY {SEQUENCE})"
        items = [
            n if n in self.keys else f"last({n}, true) OVER {window} AS {n}" for n in self.names
        ]
        columns = ", ".join([*items, SEQUENCE, DELETED, EVENT])
        return f"SELECT {columns} FROM (\n{_indent(rows, 4)}\n)"


def _add_columns(rows: str, columns: str) -> str:
    return f"SELECT *, {columns} FROM (\n{_indent(rows, 4)}\n)"


def _indent(text: str, blanks: int) -> str:
    r"""Text with blanks before each line; signs that only other texts take for line ends stay.

    >>> _indent("a\n'\u2028'", 1)
    " a\n '\u2028'"
    """
    return "\n".join(" " * blanks + line if line else line for line in text.split("\n"))
