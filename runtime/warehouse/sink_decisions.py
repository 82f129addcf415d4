"""What a sink does next with its output: the decisions of tasks and of views are of one type. Pure.

A decision moves the output's upper (exclusive) or waits; it never moves it back.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

What = TypeVar("What")


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing until a frontier moves."""


@dataclass(frozen=True, slots=True)
class Advance:
    """Move the upper to ``upper`` without rows."""

    upper: int


@dataclass(frozen=True, slots=True)
class Write(Generic[What]):
    """Commit ``what``, and move the upper to ``upper`` in the same commit."""

    upper: int
    what: What


WAIT = Wait()
Decision = Wait | Advance | Write[What]
