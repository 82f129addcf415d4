"""Rows from outside of the warehouse: files, and temporary views."""

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ctsql.catalog.errors import CtsqlError, error
from ctsql.planner.syntax.ast import FileRef, RelationRef
from ctsql.runtime.delta.table import Gateway
from ctsql.runtime.spark.failures.errors import translate_spark_errors
from ctsql.runtime.spark.failures.messages import thrown_by
from ctsql.runtime.spark.internals.temporary import has_view, view_rows

_NOT_OF_THE_FORMAT = ("UNABLE_TO_INFER_SCHEMA", "FAILED_READ_FILE")
_DEFAULTS = {
    # RFC 4180: a quote within a text is doubled, a text may have line breaks, and "" is a text
    # while nothing is NULL. Spark's own defaults read such files as other rows, without a word.
    "csv": {
        "header": "true",
        "inferschema": "true",
        "escape": '"',
        "multiline": "true",
        "nullvalue": "\0",
        "mode": "FAILFAST",
    },
    "json": {"mode": "FAILFAST"},
}


class ExternalRelations:
    """Files and temporary views, for statements that run once; definitions cannot read them.

    ``caller`` is the session of the temporary views.
    """

    def __init__(self, gateway: Gateway, caller: SparkSession) -> None:
        self._gateway = gateway
        self.caller = caller

    def kind(self, parts: tuple[str, ...]) -> str | None:
        """What a name means outside of the catalog; None if nothing has it."""
        return "temporary view" if has_view(self.caller, parts) else None

    def rows(self, ref: RelationRef) -> DataFrame:
        """The rows of a file or of a temporary view.

        Raises:
            FILE_NOT_FOUND: there is no file. FILE_FORMAT_UNKNOWN: it has no columns, or another
                format.
        """
        session = self._gateway.session
        with translate_spark_errors(None, ref.span):
            if ref.file is not None:
                return read_file(self._gateway, ref.file)
            return view_rows(session, self.caller, ref.parts)


def read_file(gateway: Gateway, file: FileRef) -> DataFrame:
    """The rows of a file, a folder or a pattern, by Spark's reader with its options."""
    location = gateway.qualify(file.path)
    options = _DEFAULTS.get(file.format, {}) | dict(file.options)
    if _check_there(gateway, location, file):
        # Another order of columns in another file is an error, unless an option allows it.
        options.setdefault("enforceschema", str("schema" in options).lower())
    reader = gateway.session.read.format(file.format)
    schema = options.pop("schema", None)
    if schema is not None:
        reader = reader.schema(schema)
    try:
        rows = reader.options(**options).load(location)
    except (PySparkException, Py4JJavaError) as problem:
        if not any(t.condition.startswith(_NOT_OF_THE_FORMAT) for t in thrown_by(problem)):
            raise
        raise _unreadable(file) from problem
    if not rows.columns:
        raise _unreadable(file)
    return rows


def _check_there(gateway: Gateway, location: str, file: FileRef) -> bool:
    """Raise FILE_NOT_FOUND without a file; returns whether there are several."""
    matches = gateway.glob(location)
    if not matches:
        detail = "" if file.path == location else f"It was looked for at {location}."
        raise error("FILE_NOT_FOUND", span=file.span, path=file.path, detail=detail)
    if not any(map(gateway.holds_file, matches)):
        raise error("FILE_NOT_FOUND", span=file.span, path=file.path, detail="The folder is empty.")
    return len(matches) > 1 or gateway.entries(matches[0]) is not None


def _unreadable(file: FileRef) -> CtsqlError:
    message = f'"{file.path}" has no columns when read as {file.format}'
    hint = "Check that it is not empty, and give its format: read_csv('...'), read_json('...'), "
    hint += "read_parquet('...'), read_orc('...')."
    return error("FILE_FORMAT_UNKNOWN", span=file.span, message=message, hint=hint)
