"""The write handle on real Delta: every case of the vector, batches that travel, lost races."""

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ctsql.api import Connection, connect
from ctsql.catalog.errors import CtsqlError
from ctsql.catalog.times import CLOSED
from ctsql.runtime import clock, uppers
from ctsql.runtime.batches import BatchText
from ctsql.runtime.delta_log import FILE_COLUMN, ROW_COLUMN, Gateway
from ctsql.runtime.sinks.staging import packed
from ctsql.runtime.write_handle import (
    Batch,
    Committed,
    Disturbed,
    Output,
    Rows,
    Unwritten,
    UpperMismatch,
)
from ctsql.runtime.writer_ids import WriterId
from tests.conftest import TEST_MASTER
from tests.runtime.disk import data_files, log, orphans, transaction
from tests.runtime.processes import finish_program, run_program, start_program

pytestmark = pytest.mark.spark

APP = "test:output"  # of tables of a test's own
VECTOR = json.loads(
    (Path(__file__).resolve().parent.parent / "vectors" / "write_handle.json").read_text()
)
PROPERTIES = (
    "'delta.enableDeletionVectors' = 'true', 'delta.enableInCommitTimestamps' = 'true', "
    "'delta.enableChangeDataFeed' = 'true'"
)


def _case_id(case: dict[str, Any]) -> str:
    """What is called, and what becomes of it."""
    start = case.get("expected", case.get("lower"))
    return f"at {case['upper']} from {start} to {case['new']}: {case['result']}"[:60]


class Table:
    """A Delta table of letters, and handles on it; one test's rows stand in its own files."""

    def __init__(self, con: Connection, folder: Path) -> None:
        self.spark = con.spark
        self.folder = folder
        self.spark.sql(
            f"CREATE TABLE delta.`{folder}` (k STRING) USING delta TBLPROPERTIES ({PROPERTIES})"
        )
        self.gateway = Gateway(self.spark)
        self.app = APP

    def handle(self) -> Output:
        """A handle with nothing known, as a new process would have."""
        return Output(self.gateway.table(str(self.folder)), self.app)

    def frame(self, letters: Iterable[str]) -> Any:
        """Rows."""
        values = ", ".join(f"('{x}')" for x in letters)
        return self.spark.sql(f"SELECT * FROM VALUES {values} AS v (k)").coalesce(1)

    def rows(self, updates: Iterable[tuple[str, int]]) -> list[Rows]:
        """Updates as rows by T."""
        by_time: dict[int, list[str]] = {}
        for letter, time in updates:
            by_time.setdefault(time, []).append(letter)
        return [Rows(time, self.frame(letters)) for time, letters in by_time.items()]

    def batch(self, output: Output, lower: int, upper: int, updates: Any) -> Batch:
        """A batch with updates staged."""
        batch = output.batch(lower, upper)
        for rows in self.rows(updates):
            batch.at(rows.time).stage(rows.rows)
        return batch

    def letters(self) -> Counter[str]:
        """What readers see now."""
        table = self.gateway.table(str(self.folder))
        return Counter(row["k"] for row in table.frame(table.version()).collect())

    def victims(self, output: Output, letters: str) -> list[tuple[str, bytes]]:
        """Where one row for each of some letters is stored, by file."""
        left = Counter(letters)
        found: dict[str, list[int]] = {}
        table = self.gateway.table(str(self.folder))
        for row in table.located(table.version()).orderBy(FILE_COLUMN, ROW_COLUMN).collect():
            if left[row["k"]]:
                left[row["k"]] -= 1
                found.setdefault(row[FILE_COLUMN], []).append(row[ROW_COLUMN])
        assert not left.total(), left
        return [(file, packed(rows)) for file, rows in found.items()]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Connection, Table]]:
    """One connection and one table for all tests here."""
    folder = tmp_path_factory.mktemp("handle")
    con = connect(str(folder / "warehouse"), master=TEST_MASTER)
    yield con, Table(con, folder / "letters")
    con.close()


@pytest.fixture
def table(shared: tuple[Connection, Table]) -> Iterator[Table]:
    """The shared table, empty, with an application id of the test's own."""
    _, made = shared
    made.app = f"test:{uuid.uuid4()}"
    emptied = made.handle()
    version = emptied.table.version()
    txn = emptied.table.begin()
    now_ms = clock.now_ms()
    for add in made.gateway.table(str(made.folder)).files(version).values():
        txn._actions.append(add.removeWithTimestamp(now_ms, True))
    txn.commit(label="test", epoch=0, metadata="{}")
    yield made
    assert not orphans(made.folder), "no test may leave a file that no commit knows"


@pytest.fixture
def own_table(shared: tuple[Connection, Table], tmp_path: Path) -> Iterator[Table]:
    """An empty table that the test may write behind the handle's back."""
    made = Table(shared[0], tmp_path / "letters")
    yield made
    assert not orphans(made.folder), "no test may leave a file that no commit knows"


def _bound(text: int | str) -> int:
    return CLOSED if text == "end" else int(text)


def _at(table: Table, upper: int) -> Output:
    """A handle on the table, brought to an upper."""
    output = table.handle()
    assert output.fetch_recent_upper() == 0
    if upper:
        assert isinstance(output.compare_and_append([], expected=0, new=upper), Committed)
    return output


def _check(table: Table, output: Output, case: dict[str, Any], call: Any) -> None:
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
            assert outcome == UpperMismatch(**wanted["upper_mismatch"])
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
def test_compare_and_append(table: Table, case: dict[str, Any]) -> None:
    """The vector's cases with rows staged by the call itself."""
    output = _at(table, _bound(case["upper"]))
    bounds = {"expected": _bound(case["expected"]), "new": _bound(case["new"])}
    case = {**case, "upper": 0} if case["upper"] == "end" else case
    _check(
        table,
        output,
        case,
        lambda: output.compare_and_append(table.rows(case["updates"]), **bounds),
    )


STAGED = [c for c in VECTOR["compare_and_append"] if not str(c["result"]).startswith("invalid")]


@pytest.mark.parametrize("case", STAGED, ids=_case_id)
def test_compare_and_append_of_a_batch(table: Table, case: dict[str, Any]) -> None:
    """The same cases with a batch staged before: what lost is deleted."""
    output = _at(table, case["upper"])
    bounds = {"expected": _bound(case["expected"]), "new": _bound(case["new"])}

    def call() -> Any:
        batch = table.batch(output, *bounds.values(), case["updates"])
        return output.compare_and_append([batch], **bounds)

    _check(table, output, case, call)


@pytest.mark.parametrize("case", VECTOR["append"], ids=_case_id)
@pytest.mark.parametrize("staged", [True, False])
def test_append(table: Table, case: dict[str, Any], staged: bool) -> None:
    """Replicas that write identical data: what is in already is left out."""
    output = _at(table, case["upper"])
    lower, upper = case["lower"], case["new"]

    def call() -> Any:
        changes: list[Any] = table.rows(case["updates"])
        if staged:
            changes = [table.batch(output, lower, upper, case["updates"])]
        return output.append(changes, lower=lower, upper=upper)

    _check(table, output, case, call)


# ---- batches that travel


def test_a_batch_travels_as_text(table: Table) -> None:
    """Described, it belongs to the text; read back, it goes in with others in one commit."""
    output = _at(table, 3)
    first = table.batch(output, 3, 5, [("a", 3), ("b", 4)])
    second = table.batch(output, 3, 5, [("c", 4)])
    texts = [first.describe(), second.describe()]
    with pytest.raises(CtsqlError, match="no longer there"):
        first.describe()
    with pytest.raises(CtsqlError, match="no longer there"):
        output.compare_and_append([second], expected=3, new=5)
    other = table.handle()
    commits = len(log(table.folder))
    batches = [other.batch_of(text) for text in texts]
    outcome = other.compare_and_append(batches, expected=3, new=5)
    assert outcome == Committed(commits)
    assert len(log(table.folder)) == commits + 1
    assert table.letters() == Counter("abc")
    said = other.table.commit_at(commits).metadata
    assert WriterId.parse(said["writer"]) == other.writer != output.writer
    assert said["times"] == [3, 4]


def test_a_text_is_appended_once(table: Table) -> None:
    """A text whose batch is in already, as after a lost answer, is recognised; nothing is lost."""
    output = _at(table, 3)
    text = table.batch(output, 3, 5, [("a", 3)]).describe()
    committed = output.compare_and_append([output.batch_of(text)], expected=3, new=5)
    assert isinstance(committed, Committed)
    again = table.handle()
    assert again.compare_and_append([again.batch_of(text)], expected=3, new=5) == committed
    assert again.append([again.batch_of(text)], lower=3, upper=5) == committed
    assert again.drop(again.batch_of(text)) == committed
    assert table.letters() == Counter("a")


def test_a_batch_of_another_output_is_refused(table: Table, own_table: Table) -> None:
    """By table and by application id; nothing is written, and its files are left alone."""
    output = _at(table, 3)
    other = own_table
    before = data_files(table.folder)
    batch = table.batch(output, 3, 5, [("a", 3)])
    files = data_files(table.folder)
    with pytest.raises(CtsqlError, match="not for the output"):
        other.handle().compare_and_append([batch], expected=3, new=5)
    text = batch.describe()
    for wrong in (other.handle(), Output(output.table, "another:app")):
        with pytest.raises(CtsqlError, match="not for the output"):
            wrong.batch_of(text)
    assert data_files(table.folder) == files
    assert len(log(other.folder)) == 1
    output.batch_of(text).discard()
    assert data_files(table.folder) == before


def test_files_of_a_text_that_are_gone(table: Table) -> None:
    """A text that was kept too long, so that its files were removed, changes nothing."""
    output = _at(table, 3)
    before = data_files(table.folder)
    text = table.batch(output, 3, 5, [("a", 3)]).describe()
    for file in data_files(table.folder) - before:
        (table.folder / file).unlink()
    commits = len(log(table.folder))
    with pytest.raises(CtsqlError) as caught:
        output.compare_and_append([output.batch_of(text)], expected=3, new=5)
    assert caught.value.condition == "BATCH_INVALID"
    assert "is gone" in str(caught.value.detail)
    assert len(log(table.folder)) == commits


STAGE_ELSEWHERE = """
import sys
from ctsql.api import connect
from ctsql.runtime.delta_log import Gateway
from ctsql.runtime.sinks.staging import packed
from ctsql.runtime.write_handle import Output
con = connect(sys.argv[1], master="local[1]")
con.start()
output = Output(Gateway(con.spark).table(sys.argv[2]), "test:output")
batch = output.batch(3, 6)
table = output.table
(path,) = {r[0] for r in table.located(table.version()).select("__ct_file").collect()}
batch.at(4).delete_rows([(path, packed([0]))])
for time, letter in ((3, "c"), (5, "d")):
    batch.at(time).stage(con.spark.createDataFrame([(letter,)], "k STRING").coalesce(1))
print(batch.describe(), flush=True)
"""


@pytest.mark.slow
def test_staged_by_one_process_appended_by_another(own_table: Table, warehouse: Path) -> None:
    """The text is all that passes between them; inserts and deletes of three Ts go in."""
    table = own_table
    output = _at(table, 2)
    rows = table.rows([("a", 2), ("a", 2), ("b", 2)])
    assert isinstance(output.compare_and_append(rows, expected=2, new=3), Committed)
    text = run_program(STAGE_ELSEWHERE, str(warehouse), str(table.folder)).splitlines()[-1]
    assert table.letters() == Counter("aab")
    outcome = output.append([output.batch_of(text)], lower=3, upper=6)
    assert isinstance(outcome, Committed)
    assert table.letters() == Counter("abcd")
    assert output.table.commit_at(outcome.version).metadata["times"] == [3, 4, 5]


# ---- deletes


def _filled(table: Table, letters: str) -> Output:
    output = table.handle()
    written = output.compare_and_append(table.rows((x, 0) for x in letters), expected=0, new=1)
    assert isinstance(written, Committed)
    return output


def test_deletes_of_several_times_of_one_file(table: Table) -> None:
    """Each T's part takes its own rows; what is in already is cut off, the rest is joined."""
    output = _filled(table, "aaabbc")
    mine = output.batch(1, 4)
    places = dict(table.victims(output, "aaabbc"))
    ((file, _),) = places.items()
    for time, row in ((1, 0), (2, 1), (3, 3)):
        mine.at(time).delete_rows([(file, packed([row]))])
    rival = table.handle()
    theirs = rival.batch(1, 2)
    theirs.at(1).delete_rows([(file, packed([0]))])
    assert isinstance(rival.compare_and_append([theirs], expected=1, new=2), Committed)
    assert table.letters() == Counter("aabbc")
    assert isinstance(output.append([mine], lower=1, upper=4), Committed)
    assert table.letters() == Counter("abc")


def test_all_rows_of_a_file_may_go(table: Table) -> None:
    """Also when two parts together take them."""
    output = _filled(table, "ab")
    batch = output.batch(1, 3)
    for time, letter in ((1, "a"), (2, "b")):
        batch.at(time).delete_rows(table.victims(output, letter))
    assert isinstance(output.compare_and_append([batch], expected=1, new=3), Committed)
    assert table.letters() == Counter()


def test_rows_that_somebody_moved_or_deleted(own_table: Table) -> None:
    """Deletions of rows that are not where they were are given back to be computed anew."""
    table = own_table
    output = _filled(table, "aab")
    moved = output.batch(1, 2)
    moved.at(1).delete_rows(table.victims(output, "a"))
    table.spark.sql(f"DELETE FROM delta.`{table.folder}` WHERE k = 'a'")
    assert output.compare_and_append([moved], expected=1, new=2) == Disturbed()
    gone = output.batch(1, 2)
    gone.at(1).delete_rows(table.victims(output, "b"))
    gone.at(1).stage(table.frame("z"))
    table.spark.sql(f"INSERT OVERWRITE delta.`{table.folder}` VALUES ('x')")
    assert output.compare_and_append([gone], expected=1, new=2) == Disturbed()
    assert output.fetch_recent_upper() == 1
    assert table.letters() == Counter("x")


def test_what_only_inserts_is_not_disturbed(own_table: Table) -> None:
    """OPTIMIZE, foreign rows and a changed property between staging and commit do no harm."""
    table = own_table
    output = _filled(table, "aab")
    batch = table.batch(output, 1, 2, [("n", 1)])
    deleting = output.batch(1, 2)
    deleting.at(1).delete_rows(table.victims(output, "b"))
    table.spark.sql(f"ALTER TABLE delta.`{table.folder}` SET TBLPROPERTIES ('x.y' = '1')")
    table.spark.sql(f"INSERT INTO delta.`{table.folder}` VALUES ('f')")
    assert isinstance(output.compare_and_append([batch, deleting], expected=1, new=2), Committed)
    assert table.letters() == Counter("aafn")
    assert output.has_foreign_rows(), "they came after the version that the batch was made from"
    table.spark.sql(f"OPTIMIZE delta.`{table.folder}`")
    assert isinstance(output.compare_and_append([], expected=2, new=3), Committed)
    assert not output.has_foreign_rows()
    table.spark.sql(f"OPTIMIZE delta.`{table.folder}`")
    assert not output.has_foreign_rows()


# ---- races, and answers that are lost


class LostAnswers:
    """A table whose next commit fails with an error, after or before it is made."""

    def __init__(self, table: Any, *, is_in: bool, late: bool) -> None:
        self._table = table
        self._is_in = is_in
        self.answers_late = late

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def begin(self) -> Any:
        """A transaction; its commit loses the answer."""
        from ctsql.catalog.errors import error

        txn = self._table.begin()
        commit = txn.commit

        def answer_lost(**said: Any) -> int:
            if self._is_in:
                commit(**said)
            raise error("STORAGE_ERROR", message="the store does not answer", detail="", hint="")

        txn.commit = answer_lost
        return txn


@pytest.mark.parametrize("late", [True, False])
def test_a_lost_answer_of_a_commit_that_is_in(table: Table, late: bool) -> None:
    """The log says that it is in, by its token: it is neither lost nor written twice."""
    output = _at(table, 1)
    output.table = LostAnswers(output.table, is_in=True, late=late)
    outcome = output.compare_and_append(table.rows([("a", 1)]), expected=1, new=2)
    assert outcome == Committed(len(log(table.folder)) - 1)
    assert table.letters() == Counter("a")


@pytest.mark.parametrize("late", [True, False])
def test_a_lost_answer_of_a_commit_that_is_not(table: Table, late: bool) -> None:
    """Its files are deleted as soon as it can no longer come in, and not before."""
    output = _at(table, 1)
    before = data_files(table.folder)
    real = output.table
    output.table = LostAnswers(real, is_in=False, late=late)
    with pytest.raises(CtsqlError, match="does not answer"):
        output.compare_and_append(table.rows([("a", 1)]), expected=1, new=2)
    assert len(data_files(table.folder) - before) == (1 if late else 0)
    output.table = real
    assert isinstance(output.compare_and_append([], expected=1, new=2), Committed)
    assert data_files(table.folder) == before


def test_a_commit_that_is_interrupted_keeps_its_files(table: Table) -> None:
    """Ctrl-C while the store commits: it may be in, so its files stay until the upper moved."""
    output = _at(table, 1)
    attempt = output.open(1)
    assert not isinstance(attempt, UpperMismatch)
    attempt.stage(table.frame("a"))
    commit = attempt.txn.commit

    def interrupted(**said: Any) -> int:
        commit(**said)
        raise KeyboardInterrupt

    attempt.txn.commit = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        attempt.commit(2, {})
    attempt.abandon()
    assert output.fetch_recent_upper() == 2
    assert table.letters() == Counter("a")


def test_attempts_and_batches_lose_to_each_other(table: Table) -> None:
    """Of an attempt and a batch at one upper the first is in; the other leaves no file."""
    output = _at(table, 1)
    batch = table.batch(output, 1, 2, [("b", 1)])
    attempt = output.open(1)
    assert not isinstance(attempt, UpperMismatch)
    attempt.stage(table.frame("a"))
    rival = table.handle()
    assert isinstance(rival.append([batch], lower=1, upper=2), Committed)
    assert attempt.commit(2, {}) == UpperMismatch(2, 1)
    late = table.batch(output, 2, 3, [("c", 2)])
    second = rival.open(2)
    assert not isinstance(second, UpperMismatch)
    assert isinstance(second.commit(3, {}), Committed)
    assert output.upper == 2, "cached: nobody asked the log"
    assert output.compare_and_append([late], expected=2, new=3) == UpperMismatch(3, 2)
    assert table.letters() == Counter("b")


# ---- the handle


def test_wait_for_upper_past(table: Table) -> None:
    """It returns once the upper is past, whoever moved it; a wait runs no Spark job."""
    output, rival = _at(table, 3), table.handle()
    assert output.wait_for_upper_past(2, timeout_seconds=0)
    assert not output.wait_for_upper_past(3, timeout_seconds=0.05)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            rival.compare_and_append([], expected=3, new=4)
        if len(pauses) == 4:
            rival.compare_and_append([], expected=4, new=7)

    tracker = table.spark.sparkContext.statusTracker()
    table.spark.sparkContext.setJobGroup("waiting", "waiting")
    try:
        assert output.wait_for_upper_past(5, timeout_seconds=60, pause=pause)
    finally:
        table.spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert list(tracker.getJobIdsForGroup("waiting")) == []
    assert len(pauses) == 4
    assert output.upper == 7


@pytest.mark.slow
def test_wait_for_another_process(own_table: Table, warehouse: Path) -> None:
    """Another process moves the upper while this one waits."""
    table = own_table
    output = _at(table, 3)
    program = """
import sys
from ctsql.api import connect
from ctsql.runtime.delta_log import Gateway
from ctsql.runtime.write_handle import Output
con = connect(sys.argv[1], master="local[1]")
con.start()
output = Output(Gateway(con.spark).table(sys.argv[2]), "test:output")
print(output.compare_and_append([], expected=3, new=9))
"""
    process = start_program(program, str(warehouse), str(table.folder))
    assert output.wait_for_upper_past(8, timeout_seconds=120)
    assert "Committed" in finish_program(process)


def test_memory_is_bounded(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old entries are forgotten, and read again when somebody asks for them."""
    monkeypatch.setattr(uppers, "ENTRIES_KEPT_MAX", 6)
    output = table.handle()
    for upper in range(1, 16):
        outcome = output.compare_and_append([], expected=upper - 1, new=upper)
        assert isinstance(outcome, Committed)
        assert output.uppers.kept_count <= 6
    newest = output.table.version()
    wanted = [(upper, newest - 15 + upper) for upper in range(2, 16)]
    assert [(e.upper, e.version) for e in output.entries(since=2)] == wanted
    assert [(e.upper, e.version) for e in table.handle().entries(since=2)] == wanted
    assert isinstance(output.compare_and_append([], expected=15, new=16), Committed)
    assert output.uppers.kept_count <= 6
    assert output.upper == 16


def test_commits_name_their_writer(table: Table) -> None:
    """Batches and attempts alike, by the id of the handle."""
    output = _at(table, 1)
    attempt = output.open(1)
    assert not isinstance(attempt, UpperMismatch)
    committed = attempt.commit(2, {"mine": 7})
    assert isinstance(committed, Committed)
    said = output.table.commit_at(committed.version).metadata
    assert WriterId.parse(said["writer"]) == output.writer
    assert (said["lower"], said["upper"], said["mine"]) == (1, 2, 7)
    assert transaction(log(table.folder)[-1]) == 2


def test_a_description_has_bounds_and_output(table: Table) -> None:
    """What a text says of its batch."""
    output = _at(table, 3)
    text = table.batch(output, 3, 5, [("a", 3)]).describe()
    read = BatchText.from_json(text)
    assert (read.lower, read.upper, read.app) == (3, 5, table.app)
    assert read.version == output.table.version()
    wrong = output.batch_of(text)
    with pytest.raises(CtsqlError, match="bounds of a staged batch"):
        output.compare_and_append([wrong], expected=3, new=9)
    wrong.discard()
