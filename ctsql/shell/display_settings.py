r"""The settings of the shell: ``\x``, ``\timing``, ``\format``, ``\pset``, ``\set``."""

from collections.abc import Callable

from ctsql.catalog.errors import error
from ctsql.catalog.names import did_you_mean
from ctsql.console.script import OutputSettings
from ctsql.console.variables import NAME
from ctsql.rendering.show import Format
from ctsql.shell.commands import parse_limit, parse_switch

ROWS_SHOWN = 1000


class DisplaySettings:
    """Changes settings, and reports the new values.

    Attributes:
        timing: whether to report the duration of each statement.
        actions: by the name of a command, the function of its argument.
    """

    def __init__(self, settings: OutputSettings) -> None:
        self._settings = settings
        settings.limit = ROWS_SHOWN
        self.timing = False
        self.actions: dict[str, Callable[[str], None]] = {
            "expanded": self._set_expanded,
            "timing": self._set_timing,
            "format": self._set_format,
            "display": self._set_display,
            "set": self._set_variable,
            "unset": self._unset_variable,
        }

    def _say(self, text: str) -> None:
        self._settings.note(text)

    def _set_expanded(self, argument: str) -> None:
        self._settings.expanded = parse_switch(self._settings.expanded, argument)
        self._say(f"Expanded display is {_on(self._settings.expanded)}.")

    def _set_timing(self, argument: str) -> None:
        self.timing = parse_switch(self.timing, argument)
        self._say(f"Timing is {_on(self.timing)}.")

    def _set_format(self, argument: str) -> None:
        names = [f.value for f in Format]
        if argument and argument not in names:
            hint = f"Type one of: {', '.join(names)}."
            raise error("INVALID_OPTION", option="format", value=argument, hint=hint)
        if argument:
            self._settings.format = Format(argument)
        self._say(f"Output format is {self._settings.format.value}.")

    def _set_limit(self, argument: str) -> None:
        self._settings.limit = parse_limit(argument)
        limit = self._settings.limit
        self._say("A table shows all rows." if limit is None else f"A table shows {limit} rows.")

    def _set_display(self, argument: str) -> None:
        name, _, value = argument.partition(" ")
        match name:
            case "null":
                self._settings.null = _unquoted(value.strip())
                self._say(f'NULL is shown as "{self._settings.null}".')
            case "pager":
                self._settings.pager = parse_switch(self._settings.pager, value.strip())
                self._say(f"The pager is {_on(self._settings.pager)}.")
            case _:
                hint = did_you_mean(name, ("null", "pager"), otherwise="Known are: null, pager.")
                raise error("INVALID_OPTION", option=r"\pset", value=name, hint=hint)

    def _set_variable(self, argument: str) -> None:
        name, _, value = argument.partition(" ")
        variables = self._settings.variables
        if name == "limit":
            self._set_limit(value)
        elif not name:
            for variable, text in sorted(variables.items()):
                self._say(f"{variable} = {text}")
        elif NAME.fullmatch(name):
            variables[name] = _unquoted(value.strip())
        else:
            hint = r"Type: \set day 2026-01-31, and :day or :'day' in a statement."
            raise error("INVALID_OPTION", option=r"\set", value=name, hint=hint)

    def _unset_variable(self, argument: str) -> None:
        if self._settings.variables.pop(argument, None) is None:
            raise error("INVALID_OPTION", option=r"\unset", value=argument, detail="It is not set.")


def _unquoted(value: str) -> str:
    r"""A value of ``\set`` without its quotes, if it has some.

    >>> _unquoted("'a b'"), _unquoted("a b")
    ('a b', 'a b')
    """
    is_quoted = len(value) > 1 and value[0] == value[-1] == "'"
    return value[1:-1].replace("''", "'") if is_quoted else value


def _on(switch: bool) -> str:
    return "on" if switch else "off"
