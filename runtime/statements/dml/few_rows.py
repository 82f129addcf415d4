"""User queries over few rows, which Spark answers faster without generated code.

Generating and compiling Java takes longer than computing a thousand rows. Queries that multiply
rows keep generated code; the text decides, because only time depends on it.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

from pyspark.sql import SparkSession

from ctsql.planner.nodes import External, NormalReference, Query, descend
from ctsql.runtime.engine import Engine
from ctsql.runtime.rows.prepared_rows import WITHOUT_CODE_MAX
from ctsql.runtime.spark.internals.sessions import setting, without_code

PAIRS_MAX = 1_000_000  # the most combinations of the rows of all relations; a join may compare all
_MAKES_ROWS = re.compile(
    r"\b(range|sequence|explode\w*|posexplode\w*|inline\w*|stack|lateral|recursive|json_tuple)\b",
    re.IGNORECASE,
)


def reads_few(engine: Engine, query: Query) -> bool:
    """Whether a query reads few rows of objects, or one system table, and makes no more rows."""
    counts: list[int] = []
    for node in descend(query):
        match node:
            case External(system=system) if system is None or len(query.relations) > 1:
                return False
            case Query(sql=sql) if _MAKES_ROWS.search(sql.span.text):
                return False
            case NormalReference(object_id=object_id):
                item = engine.relations.item(object_id)
                count = engine.versions.rows_count(item, engine.timeline.now)
                if count is None:
                    return False
                counts.append(count)
    return sum(counts) <= WITHOUT_CODE_MAX and prod(n or 1 for n in counts) <= PAIRS_MAX


@contextmanager
def for_few_rows(session: SparkSession) -> Iterator[None]:
    """Plan and compute without generated code inside."""
    with (
        without_code(session),
        setting(session, "spark.sql.codegen.wholeStage", "false"),
    ):
        yield
