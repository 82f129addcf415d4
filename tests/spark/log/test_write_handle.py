"""The write handle on real Delta: every case of the vector, and reading the upper."""

import json
from collections import Counter
from typing import Any

import pytest

from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.times import CLOSED
from ctsql.runtime.log import uppers
from ctsql.runtime.log.write_handle import Committed, Output, Unwritten, UpperMoved
from tests.conftest import VECTORS
from tests.helpers.letter_table import Letters, at_upper
from tests.helpers.table_folder import data_files, log

VECTOR = json.loads((VECTORS / "write_handle.json").read_text())


def _case_id(case: dict[str, Any]) -> str:
    """What is called, and what becomes of it."""
    start = case.get("expected", case.get("lower"))
    return f"at {case['upper']} from {start} to {case['new']}: {case['result']}"[:60]


def _bound(text: int | str) -> int:
    return CLOSED if text == "end" else int(text)


def _check(table: Letters, output: Output, case: dict[str, Any], call: Any) -> None:
    """Run a case's call and look at its result, the upper, the files and the rows."""
    commits, files = len(log(table.folder)), data_files(table.folder)
    wanted = case["result"]
    if isinstance(wanted, str) and wanted.startswith("invalid"):
        with pytest.raises(CtsqlError) as caught:
            call()
        reason = wanted.removeprefix("invalid: ").removeprefix("an update ")
        reason = reason.removeprefix("bounds ")
        reason = reason.replace("new upper", "upper").replace("expected upper", "lower")
        said = caught.value.message.replace("output is", "collection is")
        assert reason in said, said
    else:
        outcome = call()
        if isinstance(wanted, dict):
            assert outcome == UpperMoved(**wanted["upper_mismatch"])
        elif "no-op" in wanted:
            assert outcome == Unwritten(_bound(case["after"]))
        else:
            assert isinstance(outcome, Committed)
    assert output.upper == _bound(case["after"])
    assert table.handle().fetch_recent_upper() == _bound(case["after"])
    if "commits" in case:
        assert len(log(table.folder)) - commits == case["commits"]
    for left in ("data_files_left", "data_files_written"):
        if left in case:
            assert len(data_files(table.folder) - files) == case[left]
    is_written = isinstance(wanted, str) and wanted.startswith("ok") and "no-op" not in wanted
    low = max(case["upper"], case.get("lower", 0)) if is_written else 0
    assert table.letters() == Counter(k for k, t in case["updates"] if is_written and t >= low)


@pytest.mark.parametrize("case", VECTOR["compare_and_append"], ids=_case_id)
def test_compare_and_append(table: Letters, case: dict[str, Any]) -> None:
    """The vector's cases: what lost is deleted."""
    output = at_upper(table, _bound(case["upper"]))
    bounds = {"expected": _bound(case["expected"]), "new": _bound(case["new"])}

    def call() -> Any:
        batch = table.batch(output, *bounds.values(), case["updates"])
        return output.compare_and_append([batch], **bounds)

    case = {**case, "upper": 0} if case["upper"] == "end" else case
    _check(table, output, case, call)


@pytest.mark.parametrize("case", VECTOR["append"], ids=_case_id)
def test_append(table: Letters, case: dict[str, Any]) -> None:
    """Replicas that write identical data: what is in already is left out."""
    output = at_upper(table, case["upper"])
    lower, upper = case["lower"], case["new"]

    def call() -> Any:
        batch = table.batch(output, lower, upper, case["updates"])
        return output.append([batch], lower=lower, upper=upper)

    _check(table, output, case, call)


# ---- the handle


def test_memory_is_bounded(table: Letters, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old entries are forgotten, and read again when somebody asks for them."""
    monkeypatch.setattr(uppers, "ENTRIES_KEPT_MAX", 6)
    output = table.handle()
    for upper in range(1, 16):
        outcome = output.compare_and_append([], expected=upper - 1, new=upper)
        assert isinstance(outcome, Committed)
        assert len(output.uppers._entries) <= 6
    newest = output.table.version()
    wanted = [(upper, newest - 15 + upper) for upper in range(2, 16)]
    assert [(e.upper, e.version) for e in output.entries(since=2)] == wanted
    assert [(e.upper, e.version) for e in table.handle().entries(since=2)] == wanted
    assert isinstance(output.compare_and_append([], expected=15, new=16), Committed)
    assert len(output.uppers._entries) <= 6
    assert output.upper == 16
