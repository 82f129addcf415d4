"""Lowering of MERGE: one join of the output's rows (held) and the source serves all clauses.

    matched rows       held JOIN source ON on: the first WHEN MATCHED clause that applies
    unmatched held     held ANTI JOIN source: the first WHEN NOT MATCHED BY SOURCE clause
    unmatched source   source ANTI JOIN held: the first WHEN NOT MATCHED clause

All three read the output as it was before the statement. Several source rows that match one held
row are an error, as in Spark, unless the statement only deletes all matched rows. Stored rows are
identified by their place, proposed ones by a number given within the join.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window, functions as F

from ctsql.catalog.names import backtick, backtick_all
from ctsql.catalog.reserved_columns import ACTION, HELD, VALUE_
from ctsql.catalog.schemas import plain_type
from ctsql.planner.lowering.constraints import row_text
from ctsql.planner.lowering.output_state import OutputState, StatementView, union_all, value_pieces
from ctsql.planner.lowering.queries import lower_query
from ctsql.planner.lowering.store_assignment import as_stored
from ctsql.planner.nodes import Merge, MergeClause, Query
from ctsql.planner.syntax.ast import MergeAction, MergeWhen

Pieces = list[str | Query]
AMBIGUOUS_MATCH = (
    "a row of the output is matched by several rows of the source of MERGE, "
    "which must have one for each, for example by GROUP BY the columns of ON: "
)


def lower_merge(node: Merge, view: StatementView, *, later: bool) -> OutputState:
    """Return the output's state after a MERGE; ``later``: whether stored rows are needed then."""
    output = view.output
    lowering = _Lowering(node, view)
    stored_rows, inserts, victims = output.stored_rows, output.inserts, output.victims
    fresh: list[DataFrame | None] = []
    for rows in (stored_rows, inserts):
        if rows is None:
            continue
        for old_rows, new_rows in lowering.change(rows):
            fresh.append(new_rows)
            if rows is stored_rows:
                victims = union_all(victims, old_rows.select(*backtick_all(rows.columns)))
    if stored_rows is not None and later:
        stored_rows = lowering.keep(stored_rows)
    if inserts is not None:
        inserts = lowering.keep(inserts)
    fresh += [lowering.insert(i) for i in range(len(lowering.of(MergeWhen.NOT_MATCHED)))]
    return OutputState(stored_rows, union_all(inserts, *fresh), victims)


class _Lowering:
    def __init__(self, node: Merge, view: StatementView) -> None:
        self.node = node
        self.view = view
        source = node.source
        self.source = lower_query(source, view.context, view.output_frames(source.relations))

    def of(self, when: MergeWhen) -> list[MergeClause]:
        return [c for c in self.node.clauses if c.when is when]

    def change(self, rows: DataFrame) -> list[tuple[DataFrame, DataFrame | None]]:
        """The rows that the clauses remove, each with the row proposed in its place."""
        frames = []
        if matched_clauses := self.of(MergeWhen.MATCHED):
            frames.append(self._split(self._match(rows, matched_clauses), matched_clauses))
        if unmatched_clauses := self.of(MergeWhen.NOT_MATCHED_BY_SOURCE):
            alone = self._join(rows, "LEFT ANTI JOIN")
            pieces = [
                "SELECT *",
                *self._choice(unmatched_clauses),
                f" FROM {{rows}} AS {self.node.alias}",
            ]
            action_rows = self.view.run(pieces, {"rows": alone})
            frames.append(self._split(action_rows, unmatched_clauses))
        return frames

    def _split(
        self, action_rows: DataFrame, clauses: Sequence[MergeClause]
    ) -> tuple[DataFrame, DataFrame | None]:
        old_rows = action_rows.where(F.col(ACTION) > 0)
        updates = [i for i, c in enumerate(clauses, 1) if c.action is MergeAction.UPDATE]
        if not updates:
            return old_rows, None
        values = [as_stored(F.col(f"{VALUE_}{i}"), c) for i, c in enumerate(self.node.target)]
        return old_rows, old_rows.where(F.col(ACTION).isin(updates)).select(*values)

    def _match(self, rows: DataFrame, clauses: Sequence[MergeClause]) -> DataFrame:
        """Held rows with a match, with the number of the clause that applies and new values."""
        deletes_all = clauses[0].action is MergeAction.DELETE and clauses[0].condition is None
        if len(clauses) == 1 and deletes_all:
            matches = self._join(rows, "LEFT SEMI JOIN")
            return matches.withColumn(ACTION, F.lit(1))
        places = [c for c in rows.columns if c not in {t.name for t in self.node.target}]
        if not places:
            rows = rows.withColumn(HELD, F.monotonically_increasing_id())
            places = [HELD]
        pieces: Pieces = [f"SELECT {self.node.alias}.*", *self._choice(clauses)]
        pieces += [self._from("{rows}", "JOIN"), self.node.on, ")"]
        pairs = self.view.run(pieces, {"rows": rows, "source": self.source})
        often = F.count(F.lit(1)).over(Window.partitionBy(*backtick_all(places))) > 1
        row = row_text([c.name for c in self.node.target])
        refusal = F.raise_error(F.concat(F.lit(AMBIGUOUS_MATCH), row)).cast("int")
        return pairs.withColumn(ACTION, F.when(often, refusal).otherwise(F.col(ACTION)))

    def _choice(self, clauses: Sequence[MergeClause]) -> Pieces:
        """The number of the first clause that applies (0: none), and the values that it assigns."""
        pieces: Pieces = [", ", *_cases(clauses, [[str(i)] for i in range(1, len(clauses) + 1)])]
        pieces[-1] = f"{pieces[-1]} AS {ACTION}"
        for i, column in enumerate(self.node.target):
            before = f"{self.node.alias}.{backtick(column.name)}"
            values: list[Pieces] = []
            for clause in clauses:
                value = next((a for a in clause.assignments if a.column == column.name), None)
                if value is None:
                    values.append([before])
                elif value.value is None:
                    values.append(["NULL"])
                else:
                    values.append(["CAST((", value.value, f") AS {plain_type(column.type)})"])
            pieces += [", ", *_cases(clauses, values, otherwise=before), f" AS {VALUE_}{i}"]
        return pieces

    def keep(self, rows: DataFrame) -> DataFrame:
        """The held rows to which no clause applies."""
        matched_clauses = self.of(MergeWhen.MATCHED)
        unmatched_clauses = self.of(MergeWhen.NOT_MATCHED_BY_SOURCE)
        if not matched_clauses and not unmatched_clauses:
            return rows
        rest = self._join(rows, "LEFT ANTI JOIN", also=matched_clauses) if matched_clauses else rows
        if not unmatched_clauses:
            return rest
        alone = self._join(rows, "LEFT ANTI JOIN")
        if any(c.condition is None for c in unmatched_clauses):
            return self._join(rest, "LEFT SEMI JOIN")
        pieces: Pieces = [f"SELECT * FROM {{rows}} AS {self.node.alias} WHERE "]
        pieces += [*_any(unmatched_clauses), " IS NOT TRUE"]
        untouched_rows = self.view.run(pieces, {"rows": alone})
        return self._join(rest, "LEFT SEMI JOIN").unionAll(untouched_rows)

    def _join(
        self, rows: DataFrame, join: str, also: Sequence[MergeClause] | None = None
    ) -> DataFrame:
        """Held rows for which ON and a condition of ``also`` hold; by an anti join the others."""
        pieces: Pieces = [f"SELECT {self.node.alias}.*", self._from("{rows}", join), self.node.on]
        pieces.append(")")
        if also is not None and all(c.condition is not None for c in also):
            pieces += [" AND ", *_any(also)]
        return self.view.run(pieces, {"rows": rows, "source": self.source})

    def _from(self, rows: str, join: str) -> str:
        node = self.node
        return f" FROM {rows} AS {node.alias} {join} {{source}} AS {node.source_alias} ON ("

    def insert(self, number: int) -> DataFrame:
        """The rows that the WHEN NOT MATCHED clause of this number inserts."""
        node, clauses = self.node, self.of(MergeWhen.NOT_MATCHED)
        clause = clauses[number]
        pieces: Pieces = ["SELECT "]
        values = {a.column: a.value for a in clause.assignments}
        for i, column in enumerate(node.target):
            value = values.get(column.name)
            pieces.append(", " if i else "")
            pieces += ["NULL"] if value is None else ["(", value, ")"]
            pieces.append(f" AS {VALUE_}{i}")
        pieces += [
            f" FROM {{source}} AS {node.source_alias} LEFT ANTI JOIN {{held}} AS {node.alias} ON (",
            node.on,
            ") WHERE TRUE",
        ]
        for before in clauses[:number]:
            assert before.condition is not None  # the parser lets only the last be without
            pieces += [" AND (", before.condition, ") IS NOT TRUE"]
        if clause.condition is not None:
            pieces += [" AND (", clause.condition, ")"]
        contents = self.view.output.contents(node.of, self.view.context)
        rows = self.view.run(pieces, {"source": self.source, "held": contents})
        return rows.select(
            *(as_stored(F.col(f"{VALUE_}{i}"), c) for i, c in enumerate(node.target))
        )


def assigned_values(node: Merge, view: StatementView) -> list[DataFrame]:
    """For each clause the values that it assigns, before any cast, for a check of their types."""
    lowering = _Lowering(node, view)
    contents = view.output.contents(node.of, view.context)
    frames = []
    for clause in node.clauses:
        pieces: Pieces = ["SELECT 1", *value_pieces(clause.assignments)]
        match clause.when:
            case MergeWhen.MATCHED:
                pieces += [lowering._from("{rows}", "JOIN"), node.on, ")"]
            case MergeWhen.NOT_MATCHED:
                pieces.append(f" FROM {{source}} AS {node.source_alias}")
                pieces += [f" LEFT ANTI JOIN {{rows}} AS {node.alias} ON (", node.on, ")"]
            case MergeWhen.NOT_MATCHED_BY_SOURCE:
                pieces += [lowering._from("{rows}", "LEFT ANTI JOIN"), node.on, ")"]
        if clause.condition is not None:
            pieces += [" WHERE (", clause.condition, ")"]
        frames.append(view.run(pieces, {"rows": contents, "source": lowering.source}))
    return frames


def _cases(
    clauses: Sequence[MergeClause], results: Sequence[Pieces], *, otherwise: str = "0"
) -> Pieces:
    """A CASE over the clauses' conditions; a clause without one is its ELSE."""
    pieces: Pieces = ["CASE WHEN FALSE THEN NULL"]
    for clause, result in zip(clauses, results, strict=True):
        condition: Pieces = ["TRUE"] if clause.condition is None else [clause.condition]
        pieces += [" WHEN (", *condition, ") THEN ", *result]
    pieces.append(f" ELSE {otherwise} END")
    return pieces


def _any(clauses: Sequence[MergeClause]) -> Pieces:
    """Whether at least one clause's condition is true."""
    pieces: Pieces = ["(FALSE"]
    for clause in clauses:
        pieces += [" OR TRUE"] if clause.condition is None else [" OR (", clause.condition, ")"]
    return [*pieces, ")"]
