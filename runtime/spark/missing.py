"""Methods that this release of Spark or Delta lacks, and the alternatives.

A private method may be gone in another release. py4j raises an error at the call; the traceback has
the function of the two ``internals`` packages that called it, and that function's docstring what is
lost. If there is an alternative (:func:`or_else`), it is used from then on; if not, the statement
fails with SPARK_VERSION (:mod:`ctsql.runtime.spark.failures.errors`).
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

from ctsql.catalog.errors import CtsqlError

P = ParamSpec("P")
T = TypeVar("T")
_REFUSED = re.compile(
    r"((?:Method|Constructor) .+ does not exist|\S+ does not exist in the JVM"
    r"|'JavaPackage' object is not callable)"
)
"""py4j's texts for a missing method or class."""
_OTHER_ARGUMENTS = re.compile(r"[\w.<>]+\(\) (?:got|takes|missing) .*\bargument")
"""Python's texts for a function that takes other arguments than those given."""
FAILURES = (Py4JError, AttributeError, ImportError, TypeError)
"""Exceptions that may mean that something is missing."""
_LOSS = re.compile(
    r"(?:Needed|A\s+fast\s+path|Optional):\s+(without\s+it,.+?)\.(?:\s|$)", re.DOTALL
)
_ROOMS = "ctsql.runtime."
_INTERNALS = (f"{_ROOMS}spark.internals.", f"{_ROOMS}delta.internals.")


@dataclass(frozen=True, slots=True)
class Missing:
    """A missing method, class or attribute."""

    function: str  # its caller, as ``spark.internals.sessions.active``
    what: str  # in py4j's words
    loss: str  # from the docstring of the function. Both are empty outside of internals

    def __str__(self) -> str:
        return f"{self.what} ({self.function}): {self.loss}" if self.function else self.what


found: dict[str, Missing] = {}  # all that is missing in this process so far, by function


def missing_of(problem: BaseException | None) -> Missing | None:
    """The missing part that a call failed on, which is recorded; None for another failure."""
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
        case AttributeError(name=str(name), obj=obj):
            is_spark = getattr(obj, "__module__", "").startswith("pyspark.")
            return str(problem) if is_spark and name.startswith("_") else None
        case ImportError(name=str(name)):
            return str(problem) if name.startswith("pyspark.") else None
        case Py4JJavaError():
            return None  # Java's own exception, whose text may be a person's
        case TypeError() if _OTHER_ARGUMENTS.match(str(problem)):
            callers = [frame.f_globals.get("__name__", "") for frame in frames[-1:]]
            return str(problem) if any(c.startswith(_INTERNALS) for c in callers) else None
        case Py4JError() | TypeError():
            refused = _REFUSED.search(str(problem))
            return None if refused is None else refused[1]
    return None


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
