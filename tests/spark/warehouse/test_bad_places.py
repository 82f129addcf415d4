"""Places that hold no warehouse of this version: said by every front door, and nothing changed."""

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from ctsql.api import Connection, connect as open_connection
from ctsql.catalog.errors import CtsqlError
from ctsql.cli.main import main
from ctsql.console.progress import Progress
from ctsql.console.script import OutputSettings, Runner
from ctsql.runtime.spark.start.environment import delta_jars, ivy_jars_folder
from ctsql.shell.repl import Repl
from tests.helpers.failing_disks import needs_root
from tests.helpers.table_folder import tree

STATEMENT = "CREATE TABLE t (k INT)"
AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def _other_files(place: Path, _: Connection) -> None:
    place.mkdir()
    (place / "notes.txt").write_text("mine")


def _a_file(place: Path, _: Connection) -> None:
    place.write_text("mine")


def _below_a_file(place: Path, _: Connection) -> None:
    place.parent.rmdir()
    place.parent.write_text("mine")


def _a_delta_table(place: Path, con: Connection) -> None:
    con.spark.range(3).write.format("delta").save(str(place))


def _a_table_for_a_catalog(place: Path, con: Connection) -> None:
    con.spark.range(3).write.format("delta").save(str(place / "_ctsql" / "catalog"))


def _older(place: Path, con: Connection) -> None:
    open_connection(str(place)).execute("SHOW OBJECTS")
    catalog = f"delta.`{place}/_ctsql/catalog`"
    con.spark.sql(f"ALTER TABLE {catalog} SET TBLPROPERTIES ('ctsql.format' = '1')")


def _newer_delta(place: Path, con: Connection) -> None:
    """By a Delta Lake with a feature that this one does not know."""
    open_connection(str(place)).execute("SHOW OBJECTS")
    commits = place / "_ctsql" / "catalog" / "_delta_log"
    first = (commits / f"{0:020}.json").read_text().splitlines()
    (protocol,) = [json.loads(line) for line in first if "protocol" in line]
    for side in ("readerFeatures", "writerFeatures"):
        protocol["protocol"].setdefault(side, []).append("laterThanThis")
    protocol["protocol"]["minReaderVersion"] = 3
    info = json.loads(first[0])
    info["commitInfo"]["inCommitTimestamp"] += 1
    (commits / f"{1:020}.json").write_text(f"{json.dumps(info)}\n{json.dumps(protocol)}\n")


PLACES: dict[str, tuple[Callable[[Path, Connection], None], str, str]] = {
    "other files": (_other_files, "WAREHOUSE_NOT_FOUND", "notes.txt"),
    "a file": (_a_file, "WAREHOUSE_NOT_FOUND", "It is a file"),
    "below a file": (_below_a_file, "STORAGE_ERROR", "ot a directory"),
    "a Delta table": (_a_delta_table, "WAREHOUSE_NOT_FOUND", "It is a Delta table"),
    "a table for a catalog": (_a_table_for_a_catalog, "WAREHOUSE_NOT_FOUND", "did not create it"),
    "another format": (_older, "WAREHOUSE_FORMAT_DIFFERS", "format is 1"),
    "newer Delta": (_newer_delta, "STORED_DATA_INVALID", "laterThanThis"),
}


def _by_python(place: str, *, read_only: bool) -> str:
    with pytest.raises(CtsqlError) as caught, open_connection(place, read_only=read_only) as con:
        con.execute("SHOW OBJECTS" if read_only else STATEMENT)
    return str(caught.value)


def _by_command(*arguments: str) -> str:
    ran = CliRunner().invoke(main, arguments)
    assert ran.exit_code == 1, ran.output
    return ran.stderr


def _at_the_prompt(place: str) -> str:
    err = io.StringIO()
    settings = OutputSettings(
        out=io.StringIO(),
        messages=Console(file=err, width=200),
        progress=Progress(err, enabled=False),
    )
    Repl(Runner(open_connection(place), settings)).feed(STATEMENT + ";")
    return err.getvalue()


@pytest.mark.parametrize("kind", PLACES)
def test_a_place_that_is_no_warehouse(kind: str, tmp_path: Path, con: Connection) -> None:
    """The condition, the place, and what is there; in Python, on the command line, at a prompt."""
    make, condition, detail = PLACES[kind]
    (tmp_path / "w").mkdir()
    place = tmp_path / "w" / "place"
    make(place, con)
    before = tree(tmp_path / "w")
    for said in (
        _by_python(str(place), read_only=False),
        _by_command("-w", str(place), "-c", STATEMENT),
        _at_the_prompt(str(place)),
        # What makes no warehouse says of a place below a file that there is none.
        *([] if kind == "below a file" else [_by_command("-w", str(place), "run", "--once")]),
        *([] if kind == "below a file" else [_by_python(str(place), read_only=True)]),
        *([] if kind == "below a file" else [_by_command("-w", str(place), "status")]),
    ):
        assert condition in said, said
        assert detail in said.replace("\n", " "), said
        assert "Traceback" not in said
        assert "\tat " not in said
    assert tree(tmp_path / "w") == before


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("s3a://bucket/warehouse", "no connector"),
        ("nosuch://place/warehouse", "no connector"),
        ("hdfs://no-such-host.invalid:8020/warehouse", "host is unknown"),
    ],
)
def test_a_store_that_spark_cannot_reach(uri: str, said: str, con: Connection) -> None:
    """What is missing, not the class that was not found."""
    assert con.spark
    for message in (
        _by_python(uri, read_only=False),
        _by_python(uri, read_only=True),
        _by_command("-w", uri, "-c", STATEMENT),
    ):
        assert "STORAGE_ERROR" in message
        assert said in message
        assert "\tat " not in message


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that another user may enter, with Delta's JARs for that user."""
    folder = Path(tempfile.mkdtemp(prefix="ctsql-"))
    folder.chmod(0o755)
    jars = folder / "home" / ivy_jars_folder().relative_to(Path.home())
    jars.mkdir(parents=True)
    for jar in delta_jars():
        shutil.copy(jar, jars)
    yield folder
    shutil.rmtree(folder)


@needs_root
@pytest.mark.slow
@pytest.mark.parametrize("mode", [0o000, 0o555])
def test_missing_permissions(mode: int, shared_folder: Path) -> None:
    """A user who may not enter the warehouse, or may only read it."""
    warehouse = shared_folder / "warehouse"
    con = open_connection(str(warehouse))
    con.execute(STATEMENT + "; INSERT INTO t VALUES (1)")
    before = tree(warehouse)
    warehouse.chmod(mode)
    program = "from ctsql.cli.main import main; main()"
    given = ["-w", str(warehouse), "-c", "INSERT INTO t VALUES (2)"]
    done = subprocess.run(
        [*AS_NOBODY, sys.executable, "-c", program, *given],
        capture_output=True,
        text=True,
        check=False,
        cwd=shared_folder,
        env={**os.environ, "HOME": str(shared_folder / "home")},
    )
    warehouse.chmod(0o755)
    assert done.returncode == 1, done.stderr
    assert "STORAGE_ERROR" in done.stderr
    assert "Check the permissions" in done.stderr
    assert "Traceback" not in done.stderr
    assert tree(warehouse) == before
    assert con.execute("SELECT * FROM t").fetchall() == [(1,)]
