"""``ctsql status --watch``: the status on the whole terminal, looked up again and again.

A thread looks at the logs, so keys are answered at once however long a look takes.
"""

import locale
import threading
from collections.abc import Callable, Sequence

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style

from ctsql.catalog.errors import CtsqlError
from ctsql.runtime.log import clock
from ctsql.runtime.monitoring.watch import WatchedObject
from ctsql.watch_screen import Screen, draw

WAIT_SECONDS = 2.0
"""Between two looks, unless the user says otherwise."""
_STYLE = Style.from_dict(
    {
        "head": "bold",
        "bad": "ansired bold",
        "late": "ansiyellow",
        "dim": "ansibrightblack",
        "chosen": "reverse",
        "rows": "ansicyan",
        "seconds": "ansimagenta",
    }
)


class Watch:
    """The screen, and the thread that looks.

    Args:
        look: gives the objects; called by the thread alone.
        wait_seconds: between two looks.
    """

    def __init__(
        self,
        look: Callable[[], Sequence[WatchedObject]],
        wait_seconds: float,
        *,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        plain = "utf" not in locale.getpreferredencoding(False).lower()
        self._screen = Screen(plain=plain)
        self._look, self._wait_seconds = look, wait_seconds
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._lock = threading.Lock()
        window = Window(FormattedTextControl(self._text, show_cursor=False), wrap_lines=False)
        self._app: Application[None] = Application(
            layout=Layout(window),
            key_bindings=self._keys(),
            style=_STYLE,
            full_screen=True,
            input=input,
            output=output,
        )

    def run(self) -> None:
        """Show it until the user leaves."""
        looker = threading.Thread(target=self._look_on, daemon=True)
        self._app.run(pre_run=looker.start)
        self._stop.set()
        looker.join()
        if self._failure is not None:
            raise self._failure

    def _look_on(self) -> None:
        known = False
        while not self._stop.is_set():
            try:
                rows = self._look()
            except CtsqlError as problem:
                if not known:
                    self._failure = problem  # there is nothing to be shown
                    self._app.exit()
                    return
                with self._lock:
                    self._screen = self._screen.with_problem(problem.message)
            else:
                known = True
                with self._lock:
                    self._screen = self._screen.with_rows(rows, self._size.rows)
            self._app.invalidate()
            self._stop.wait(self._wait_seconds)

    @property
    def _size(self) -> Size:
        return self._app.output.get_size()

    def _text(self) -> StyleAndTextTuples:
        size = self._size
        with self._lock:
            screen = self._screen
        fragments: StyleAndTextTuples = []
        for line in draw(screen, size.columns, size.rows, clock.now_ms()):
            fragments += [(f"class:{style}" if style else "", text) for style, text in line]
            fragments.append(("", "\n"))
        return fragments[:-1]

    def _move(self, by: int) -> None:
        with self._lock:
            self._screen = self._screen.move_cursor(by, self._size.rows)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        everything = 1 << 30

        def bind(names: Sequence[str], by: Callable[[], int]) -> None:
            for name in names:
                keys.add(name)(lambda _: self._move(by()))

        bind(("up", "k"), lambda: -1)
        bind(("down", "j"), lambda: 1)
        bind(("pageup",), lambda: -max(self._size.rows // 2, 1))
        bind(("pagedown", " "), lambda: max(self._size.rows // 2, 1))
        bind(("home", "g"), lambda: -everything)
        bind(("end", "G"), lambda: everything)

        def leave(event: KeyPressEvent) -> None:
            event.app.exit()

        for name in ("q", "c-c", "escape"):
            keys.add(name)(leave)
        return keys
