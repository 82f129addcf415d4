"""Prepares docstrings for the page of the Python API.

Some methods are functions of another module, ``append = loading.append``: they become methods.
References such as ``:meth:`run` `` become code, because the page is Markdown.
"""

import copy
import re
from typing import Any

import griffe


class Methods(griffe.Extension):
    """Changes what was read of ctsql, before the page is rendered."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **_: Any) -> None:
        """Called when a package was read."""
        for klass in _classes(pkg):
            for name, member in list(klass.members.items()):
                if not member.is_alias and member.is_attribute:
                    function = _function(klass, str(member.value))
                    if function is not None:
                        method = copy.copy(function)
                        method.name, method.parent = name, klass
                        method.parameters = griffe.Parameters(*[*function.parameters][1:])
                        klass.members[name] = method

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each object that was read."""
        if obj.docstring is not None:
            obj.docstring.value = _ROLE.sub(r"`\1`", obj.docstring.value)


_ROLE = re.compile(r":\w+:`~?(?:ctsql\.)?([^`]+)`")


def _classes(module: griffe.Module) -> list[griffe.Class]:
    inner = [m for m in module.members.values() if not m.is_alias]
    found = [m for m in inner if isinstance(m, griffe.Class)]
    for one in inner:
        if isinstance(one, griffe.Module):
            found += _classes(one)
    return found


def _function(klass: griffe.Class, value: str) -> griffe.Function | None:
    """The function that a class takes, by its name in the class's module."""
    if value.count(".") != 1:
        return None
    try:
        path = klass.module.resolve(value.split(".")[0])
        target = klass.modules_collection[f"{path}.{value.split('.')[1]}"]
    except (KeyError, griffe.NameResolutionError):
        return None
    target = target.final_target if target.is_alias else target
    return target if isinstance(target, griffe.Function) else None
