"""The functions of the two packages that call private parts of Spark and Delta."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cached_property
from types import FunctionType
from typing import Any, cast

import ctsql.runtime.delta.internals as delta_internals
import ctsql.runtime.spark.internals as spark_internals

_PREFIX = "ctsql.runtime."


def _members() -> Iterator[tuple[str, Any, str]]:
    """Public functions and methods of both packages, as errors name them, with what docs say."""
    for package in (spark_internals, delta_internals):
        for entry in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for name, thing in vars(importlib.import_module(entry.name)).items():
                if name.startswith("_") or getattr(thing, "__module__", "") != entry.name:
                    continue
                path = f"{entry.name.removeprefix(_PREFIX)}.{name}"
                if not inspect.isclass(thing):
                    yield path, thing, str(thing.__doc__)
                    continue
                for own_name, member in vars(thing).items():
                    if own_name == "__init__":
                        yield path, member, str(thing.__doc__)
                    elif not own_name.startswith("_"):
                        yield f"{path}.{own_name}", member, str(thing.__doc__)


def _function_of(member: Any) -> Any:
    if isinstance(member, cached_property):
        return member.func
    return inspect.unwrap(member.fget if isinstance(member, property) else member)


FUNCTIONS = {
    name: cast("FunctionType", _function_of(member))
    for name, member, said in _members()
    if re.search(r"without\s+it,", said) and isinstance(_function_of(member), FunctionType)
}
NEEDED = {name for name, _, said in _members() if "Needed:" in said}
