"""Staged batches on real Delta: they travel, delete, race, and their answers are lost."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ctsql.catalog.errors import CtsqlError, error
from ctsql.runtime.log.staging import discard_on_error
from ctsql.runtime.log.write_handle import Committed, Disturbed, Output, UpperMoved
from tests.helpers.letter_table import Letters, at_upper
from tests.helpers.processes import run_program
from tests.helpers.table_folder import data_files, log

# ---- batches that travel


def test_a_batch_travels_as_text(table: Letters) -> None:
    """Described, it belongs to the text; read back, it goes in with others in one commit."""
    output = at_upper(table, 3)
    first = table.batch(output, 3, 5, [("a", 3), ("b", 4)])
    second = table.batch(output, 3, 5, [("c", 4)])
    texts = [first.describe(), second.describe()]
    with pytest.raises(CtsqlError, match="already used or deleted"):
        first.describe()
    with pytest.raises(CtsqlError, match="already used or deleted"):
        output.compare_and_append([second], expected=3, new=5)
    other = table.handle()
    commits = len(log(table.folder))
    twice = [other.batch_of(texts[0]), other.batch_of(texts[0])]
    with pytest.raises(CtsqlError, match="already used or deleted"):
        other.compare_and_append(twice, expected=3, new=5)
    wrong = other.batch_of(texts[0])
    with pytest.raises(CtsqlError, match="bounds of a staged batch"):
        other.compare_and_append([wrong], expected=3, new=9)
    batches = [other.batch_of(text) for text in texts]
    outcome = other.compare_and_append(batches, expected=3, new=5)
    assert outcome == Committed(commits)
    assert len(log(table.folder)) == commits + 1
    assert table.letters() == Counter("abc")
    said = other.table.commit_at(commits).metadata
    assert said["writer"] == other.writer != output.writer
    assert said["times"] == [3, 4]


def test_a_text_is_appended_once(table: Letters) -> None:
    """A text whose batch is in already, as after a lost answer, is recognised; nothing is lost."""
    output = at_upper(table, 3)
    text = table.batch(output, 3, 5, [("a", 3)]).describe()
    committed = output.compare_and_append([output.batch_of(text)], expected=3, new=5)
    assert isinstance(committed, Committed)
    again = table.handle()
    assert again.compare_and_append([again.batch_of(text)], expected=3, new=5) == committed
    assert again.append([again.batch_of(text)], lower=3, upper=5) == committed
    assert again.drop(again.batch_of(text)) == committed
    assert table.letters() == Counter("a")


def test_a_batch_of_another_output_is_refused(table: Letters, own_table: Letters) -> None:
    """By table and by application id; nothing is written, and its files are left alone."""
    output = at_upper(table, 3)
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


def test_files_of_a_text_that_are_gone(table: Letters) -> None:
    """A text that was kept too long, so that its files were removed, changes nothing."""
    output = at_upper(table, 3)
    before = data_files(table.folder)
    text = table.batch(output, 3, 5, [("a", 3)]).describe()
    for file in data_files(table.folder) - before:
        (table.folder / file).unlink()
    commits = len(log(table.folder))
    with pytest.raises(CtsqlError, match="BATCH_INVALID") as caught:
        output.compare_and_append([output.batch_of(text)], expected=3, new=5)
    assert "is gone" in str(caught.value.detail)
    assert len(log(table.folder)) == commits


STAGE_ELSEWHERE = """
import sys
from ctsql.api import connect
from ctsql.runtime.delta.table import Gateway
from ctsql.runtime.log.write_handle import Output
con = connect(sys.argv[1], master="local[1]")
con.start()
output = Output(Gateway(con.spark).table(sys.argv[2]), "test:output")
batch = output.batch(3, 6)
table = output.table
(path,) = {r[0] for r in table.locate_rows(table.version()).select("__ct_file").collect()}
batch.at(4).delete_rows([(path, [0])])
for time, letter in ((3, "c"), (5, "d")):
    batch.at(time).stage(con.spark.createDataFrame([(letter,)], "k STRING").coalesce(1))
print(batch.describe(), flush=True)
"""


@pytest.mark.slow
def test_staged_by_one_process_appended_by_another(own_table: Letters, warehouse: Path) -> None:
    """The text is all that passes between them; inserts and deletes of three Ts go in."""
    table = own_table
    output = at_upper(table, 2)
    batch = table.batch(output, 2, 3, [("a", 2), ("a", 2), ("b", 2)])
    assert isinstance(output.compare_and_append([batch], expected=2, new=3), Committed)
    text = run_program(STAGE_ELSEWHERE, str(warehouse), str(table.folder)).splitlines()[-1]
    assert table.letters() == Counter("aab")
    outcome = output.append([output.batch_of(text)], lower=3, upper=6)
    assert isinstance(outcome, Committed)
    assert table.letters() == Counter("abcd")
    assert output.table.commit_at(outcome.version).metadata["times"] == [3, 4, 5]


# ---- deletes


def _filled(table: Letters, letters: str) -> Output:
    output = table.handle()
    batch = table.batch(output, 0, 1, [(x, 0) for x in letters])
    written = output.compare_and_append([batch], expected=0, new=1)
    assert isinstance(written, Committed)
    return output


def test_deletes_of_several_times_of_one_file(table: Letters) -> None:
    """Each T's part takes its own rows; what is in already is cut off, the rest is joined."""
    output = _filled(table, "aaabbc")
    mine = output.batch(1, 4)
    places = dict(table.victims(output, "aaabbc"))
    ((file, _),) = places.items()
    for time, row in ((1, 0), (2, 1), (3, 3)):
        mine.at(time).delete_rows([(file, [row])])
    rival = table.handle()
    theirs = rival.batch(1, 2)
    theirs.at(1).delete_rows([(file, [0])])
    assert isinstance(rival.compare_and_append([theirs], expected=1, new=2), Committed)
    assert table.letters() == Counter("aabbc")
    assert isinstance(output.append([mine], lower=1, upper=4), Committed)
    assert table.letters() == Counter("abc")


def test_all_rows_of_a_file_may_go(table: Letters) -> None:
    """Also when two parts together take them."""
    output = _filled(table, "ab")
    batch = output.batch(1, 3)
    for time, letter in ((1, "a"), (2, "b")):
        batch.at(time).delete_rows(table.victims(output, letter))
    assert isinstance(output.compare_and_append([batch], expected=1, new=3), Committed)
    assert table.letters() == Counter()


@pytest.mark.slow
def test_rows_that_somebody_moved_or_deleted(own_table: Letters) -> None:
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


@pytest.mark.slow
def test_what_only_inserts_is_not_disturbed(own_table: Letters) -> None:
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
        self.is_silent = True
        self.answers_late = late

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def begin(self) -> Any:
        """A transaction; its commit loses the answer."""
        txn = self._table.begin()
        if not self.is_silent:
            return txn
        commit = txn.commit

        def answer_lost(**said: Any) -> int:
            if self._is_in:
                commit(**said)
            raise error("STORAGE_ERROR", message="the store does not answer", detail="", hint="")

        txn.commit = answer_lost
        return txn


@pytest.mark.parametrize("late", [True, False])
def test_a_lost_answer_of_a_commit_that_is_in(table: Letters, late: bool) -> None:
    """The log says that it is in, by its token: it is neither lost nor written twice."""
    output = at_upper(table, 1)
    output = Output(LostAnswers(output.table, is_in=True, late=late), table.app)  # type: ignore[arg-type]
    batch = table.batch(output, 1, 2, [("a", 1)])
    outcome = output.compare_and_append([batch], expected=1, new=2)
    assert outcome == Committed(len(log(table.folder)) - 1)
    assert table.letters() == Counter("a")


@pytest.mark.parametrize("late", [True, False])
def test_a_lost_answer_of_a_commit_that_is_not(table: Letters, late: bool) -> None:
    """Its files are deleted as soon as it can no longer come in, and not before."""
    output = at_upper(table, 1)
    before = data_files(table.folder)
    silent = LostAnswers(output.table, is_in=False, late=late)
    output = Output(silent, table.app)  # type: ignore[arg-type]
    batch = table.batch(output, 1, 2, [("a", 1)])
    with pytest.raises(CtsqlError, match="does not answer"), discard_on_error([batch]):
        output.compare_and_append([batch], expected=1, new=2)
    assert len(data_files(table.folder) - before) == (1 if late else 0)
    silent.is_silent = False
    assert isinstance(output.compare_and_append([], expected=1, new=2), Committed)
    assert data_files(table.folder) == before


def test_a_commit_that_is_interrupted_keeps_its_files(table: Letters) -> None:
    """Ctrl-C while the store commits: it may be in, so its files stay until the upper moved."""
    output = at_upper(table, 1)
    batch = output.open(1)
    assert not isinstance(batch, UpperMoved)
    batch.at(1).stage(table.frame("a"))
    assert batch.txn is not None
    commit = batch.txn.commit

    def interrupted(**said: Any) -> int:
        commit(**said)
        raise KeyboardInterrupt

    batch.txn.commit = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        output.compare_and_append([batch], expected=batch.lower, new=2)
    batch.discard()
    assert output.fetch_recent_upper() == 2
    assert table.letters() == Counter("a")


def test_batches_of_both_kinds_lose_to_each_other(table: Letters) -> None:
    """Of one that may go in later and one that may not the first is in; the other leaves none."""
    output = at_upper(table, 1)
    batch = table.batch(output, 1, 2, [("b", 1)])
    pinned = output.open(1)
    assert not isinstance(pinned, UpperMoved)
    pinned.at(1).stage(table.frame("a"))
    rival = table.handle()
    assert isinstance(rival.append([batch], lower=1, upper=2), Committed)
    assert output.compare_and_append([pinned], expected=pinned.lower, new=2) == UpperMoved(2, 1)
    late = table.batch(output, 2, 3, [("c", 2)])
    second = rival.open(2)
    assert not isinstance(second, UpperMoved)
    assert isinstance(rival.compare_and_append([second], expected=second.lower, new=3), Committed)
    assert output.upper == 2, "cached: nobody asked the log"
    assert output.compare_and_append([late], expected=2, new=3) == UpperMoved(3, 2)
    assert table.letters() == Counter("b")
