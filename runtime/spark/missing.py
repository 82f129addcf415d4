"""Methods that this release of Spark or Delta lacks or changed, and the alternatives.

A private method may be gone in another release: py4j raises an error at the call. Or it answers
with another type: the two ``internals`` packages check that, and fail themselves. The traceback has
their function, and that function's docstring what is lost. If there is an alternative
(:func:`or_else`), it is used from then on; if not, the statement fails with SPARK_VERSION
(:mod:`ctsql.runtime.spark.failures.errors`).
"""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from traceback import walk_tb
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from ctsql.catalog.errors import CtsqlError

P = ParamSpec("P")
T = TypeVar("T")
_REFUSED = re.compile(
    r"((?:Method|Constructor) .+ does not exist|\S+ does not exist in the JVM"
    r"|'JavaPackage' object is not callable)"
)
"""py4j's texts for a missing method or class."""
FAILURES = (Py4JError, AttributeError, ImportError, LookupError, TypeError, ValueError)
"""Exceptions that may mean that something is missing or was changed."""
_LOSS = re.compile(
    r"(?:Needed|A\s+fast\s+path|Optional):\s+(without\s+it,.+?)\.(?:\s|$)", re.DOTALL
)
_OWN = "ctsql."
_ROOMS = f"{_OWN}runtime."
_INTERNALS = (f"{_ROOMS}spark.internals.", f"{_ROOMS}delta.internals.")
_CALLS = "py4j.java_gateway"
_ANSWERED_BY = ("builtins", "py4j.", "pyspark.")  # modules of what a private call answers


@dataclass(frozen=True, slots=True)
class Missing:
    """A missing or changed method, class or attribute."""

    function: str  # its caller, as ``spark.internals.sessions.active``
    what: str  # in py4j's words
    loss: str  # from the docstring of the function. Both are empty outside of internals

    def __str__(self) -> str:
        return f"{self.what} ({self.function}): {self.loss}" if self.function else self.what


found: dict[str, Missing] = {}  # all that is missing in this process so far, by function


def missing_of(problem: BaseException | None) -> Missing | None:
    """The missing or changed part that a call failed on, recorded; None for another failure."""
    if isinstance(problem, CtsqlError):
        problem = problem.__cause__  # where it was translated already
    if problem is None:
        return None
    frames = [frame for frame, _ in walk_tb(problem.__traceback__)]
    what = _what(problem, frames)
    if what is None:
        return None
    function, loss = next(filter(None, map(_caller, reversed(frames))), ("", ""))
    return found.setdefault(function or what, Missing(function, what, loss))


def _what(problem: BaseException, frames: Sequence[FrameType]) -> str | None:
    match problem:
        case AttributeError(name=str(name), obj=obj) if name.startswith("_") and _is_pysparks(obj):
            return str(problem)
        case Py4JJavaError() | PySparkException():
            if not any(map(_gave_null, frames)):
                return None  # Java's own exception, whose text may be a person's
            problem = TypeError("NoneType instead of object")
        case ImportError(name=str(name)):
            return str(problem) if name.startswith("pyspark.") else None
        case Py4JError() | TypeError() if refused := _REFUSED.search(str(problem)):
            return refused[1]
        case AttributeError(obj=obj) if not type(obj).__module__.startswith(_ANSWERED_BY):
            return None  # an object of ours
        case AttributeError() | LookupError() | TypeError() | ValueError():
            pass
        case _:
            return None
    modules = (str(frame.f_globals.get("__name__")) for frame in reversed(frames))
    own = next((module for module in modules if module.startswith(_OWN)), "")
    return f"another answer: {problem}" if own.startswith(_INTERNALS) else None


def _gave_null(frame: FrameType) -> bool:
    """Whether a frame is py4j's, calling a method with null, which the internals never mean."""
    args = frame.f_locals.get("args", ()) if frame.f_globals.get("__name__") == _CALLS else ()
    return any(arg is None for arg in args)


def _is_pysparks(thing: object) -> bool:
    return getattr(thing, "__module__", "").startswith("pyspark.")


def _caller(frame: FrameType) -> tuple[str, str] | None:
    """The public function of the internals in a frame, and what is lost without it."""
    module = frame.f_globals.get("__name__", "")
    if not module.startswith(_INTERNALS):
        return None
    parts = frame.f_code.co_qualname.partition(".<locals>")[0].removesuffix(".__init__").split(".")
    if any(part.startswith("_") for part in parts):
        return None
    thing, loss = sys.modules[module], ""
    for part in parts:
        thing = getattr(thing, part)
        said = _LOSS.search(thing.__doc__ or "")
        loss = loss if said is None else " ".join(said[1].split())
    return (".".join([module.removeprefix(_ROOMS), *parts]), loss) if loss else None


def or_else(slow: Callable[..., Any], *needs: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make a function a fast path: once a method is missing, ``slow`` is used instead.

    ``needs``: modules of internals that it needs as a whole; by default its own.
    """

    def decorate(fast: Callable[P, T]) -> Callable[P, T]:
        own = needs or (f"{fast.__module__}.{fast.__qualname__}".removeprefix(_ROOMS),)

        @wraps(fast)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if not any(function.startswith(own) for function in found):
                try:
                    return fast(*args, **kwargs)
                except (*FAILURES, CtsqlError) as problem:
                    if missing_of(problem) is None:
                        raise
            answer: T = slow(*args, **kwargs)
            return answer

        return call

    return decorate
