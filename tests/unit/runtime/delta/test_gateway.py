"""Files of a folder, as a gateway asks the store for them."""

from typing import Any

import pytest

from ctsql.runtime.delta.table import Gateway


def test_files_are_looked_for_in_one_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those that it does not have are asked for one by one: they may be elsewhere, or gone."""
    gateway: Any = Gateway.__new__(Gateway)
    there = [f"file:/in/{number}" for number in range(1000)]
    asked: list[str] = []

    def path_exists(location: str) -> bool:
        asked.append(location)
        return location == "file:/moved"

    monkeypatch.setattr(gateway, "_glob", lambda _: (None, there))
    monkeypatch.setattr(gateway, "path_exists", path_exists)
    found = gateway.still_there("file:/in/*", [*there[::2], "file:/gone", "file:/moved"])
    assert found == [*there[::2], "file:/moved"]
    assert asked == ["file:/gone", "file:/moved"]
