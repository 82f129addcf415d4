"""The rows that the statements of a body write, as one query for each place where they are made.

    INSERT                             its query
    UPDATE                             held rows that match, with their new values
    MERGE, WHEN MATCHED                held rows joined with the source, with their new values
    MERGE, WHEN NOT MATCHED            rows of the source that no held row matches
    MERGE, WHEN NOT MATCHED BY SOURCE  held rows that no row of the source matches, with new values

What an output holds when a statement reads it is a query, too: what it held at T - 1 without the
rows that earlier statements took, and what these proposed. So is ``changes(x)``: the rows that came
and those that went, each once with how often. So where a row comes from is asked of queries over
the inputs and over the output as of T - 1, of nothing that is there only while a body runs. Pure.

A body with ITERATIONS runs several times at one T. Each time is asked about by itself: what the
times before proposed and is still there is one more relation, :func:`made_before`. So are rows that
RETRY QUARANTINE sent through again, beside those that an input inserted.

The statements mean what :mod:`ctsql.planner.lowering.transaction` makes of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ctsql.catalog.names import Name, backtick, backtick_all, fold
from ctsql.catalog.reserved_columns import COLUMN_, PREFIX
from ctsql.catalog.schemas import Column, char_length, plain_type
from ctsql.planner import nodes as lp
from ctsql.planner.syntax import rewrite
from ctsql.planner.syntax.ast import MergeAction, MergeWhen, Select
from ctsql.planner.syntax.parse import parse_as

BY_NAME = "only Spark knows which columns a query BY NAME fills"
_ROWS = Name("", f"{PREFIX}rows")
BEFORE = "made by an earlier pass of the body"
Rows = lp.SelfReference | lp.ViewReference | lp.InsertsInput | lp.DeletesInput | lp.NormalReference
Piece = str | lp.Query
Pieces = list[Piece]
Change = lp.Delete | lp.Update | lp.Merge


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRows:
    """The rows that a statement writes into an output.

    Attributes:
        statement: which one, and what it does. columns: the output's that the query fills, in
            order. query: None where Spark alone knows ``columns``. why_untold: why it does not give
            the rows of each T; empty where it does.
    """

    statement: str
    columns: tuple[Column, ...] = ()
    query: lp.Query | None = None
    why_untold: str = ""


def written_rows(
    task: lp.TaskWrite,
    object_id: str,
    *,
    is_later: bool = False,
    again: Mapping[str, lp.NormalReference] | None = None,
) -> tuple[WrittenRows, ...]:
    """What the statements of a task's body write into an output, as queries as of T.

    Args:
        is_later: of a later pass of the body: the outputs hold :func:`made_before`, too, and these
            rows are among those written as far as they are still there.
        again: rows that are read beside those inserted, by the id by which the body reads an input.
    """
    body, input_views = task.transaction, {view.object_id: view for view in task.input_views}
    if any(isinstance(s, lp.Insert) and not s.filled_columns for s in body.statements):
        return (WrittenRows(statement="INSERT", why_untold=BY_NAME),)
    outputs = _before(body, is_later=is_later)
    for number, statement in enumerate(body.statements, 1):
        own, name = lp.output_of(statement), f"statement {number}"
        outputs[own] = _Step(outputs, outputs[own], name, input_views, again or {}).after(statement)
    return tuple(one.write for one in outputs[object_id].proposals) if object_id in outputs else ()


def depends_on_passes(task: lp.TaskWrite) -> bool:
    """Whether a pass of a body with ITERATIONS reads or changes what an earlier one wrote."""
    body = task.transaction
    if body.iterations == 1:
        return False
    changes = any(isinstance(s, lp.Update | lp.Merge) for s in body.statements)
    ids = {lp.output_of(statement) for statement in body.statements}
    return changes or any(_reads_own(w) for o in ids for w in written_rows(task, o))


def made_before(object_id: str, columns: Sequence[str]) -> lp.NormalReference:
    """What earlier passes of a body have proposed for an output and is still there."""
    rows_id = f"{PREFIX}made_{object_id}"
    return lp.NormalReference(object_id=rows_id, name=_ROWS, columns=tuple(columns))


def sent_again(object_id: str, columns: Sequence[str]) -> lp.NormalReference:
    """Rows that are read beside what an input inserted: those of RETRY QUARANTINE."""
    rows_id = f"{PREFIX}again_{object_id}"
    return lp.NormalReference(object_id=rows_id, name=_ROWS, columns=tuple(columns))


def _before(body: lp.Transaction, *, is_later: bool) -> "dict[str, _OutputState]":
    """Each output that a body writes or reads, before its first statement."""
    read = {n.object_id: n for n in lp.descend(body) if isinstance(n, lp.SelfReference)}
    targets: dict[str, tuple[Column, ...]] = {}
    for statement in body.statements:
        if isinstance(statement, lp.Delete):
            continue
        own, target = lp.output_of(statement), statement.target
        targets[own] = target
        columns = tuple(c.name for c in target)
        read.setdefault(own, lp.SelfReference(object_id=own, name=_ROWS, columns=columns))
    outputs = {
        o: _OutputState(targets.get(o, ()), base=node, stored_rows=node) for o, node in read.items()
    }
    return {o: one.with_made() if is_later and o in targets else one for o, one in outputs.items()}


def _reads_own(write: WrittenRows) -> bool:
    query = write.query
    return query is not None and any(isinstance(n, lp.SelfReference) for n in lp.descend(query))


@dataclass(frozen=True, slots=True)
class _ProposedRows:
    """Rows that a statement proposed and that are still there.

    Attributes:
        write: the statement, with the query of them. rows: all their columns, as they are stored.
    """

    write: WrittenRows
    rows: Rows


@dataclass(frozen=True, slots=True)
class _OutputState:
    """What an output holds while a body runs.

    Attributes:
        target: its columns. base: what it held at T - 1. stored_rows: of this, what is
            still there.
    """

    target: tuple[Column, ...]
    base: lp.SelfReference
    stored_rows: Rows
    proposals: tuple[_ProposedRows, ...] = ()

    def with_made(self) -> "_OutputState":
        """With what earlier passes proposed."""
        rows = made_before(self.base.object_id, self.base.columns)
        query = _compose(["SELECT * FROM {rows}"], {"rows": rows})
        write = WrittenRows(statement=BEFORE, columns=self.target, query=query)
        return replace(self, proposals=(_ProposedRows(write, rows),))

    def contents(self) -> Rows:
        """All rows."""
        if not self.proposals:
            return self.stored_rows
        parts = [self.stored_rows, *(one.rows for one in self.proposals)]
        rows = {f"part{i}": part for i, part in enumerate(parts)}
        column_list = ", ".join(backtick_all(self.base.columns))
        text = " UNION ALL ".join(f"SELECT {column_list} FROM {{{name}}}" for name in rows)
        return _view(_compose([text], rows), self.base.columns)

    def compared_as_stored(self, rows: Rows) -> Rows:
        """Rows whose CHARs Spark compares as it does those of the output, with blanks behind.

        A column of UNION ALL is declared as that of the first part.
        """
        if not any(char_length(c.type) for c in self.target):
            return rows
        select = f"SELECT {', '.join(backtick_all(self.base.columns))}"
        text = f"{select} FROM {{none}} WHERE false UNION ALL {select} FROM {{rows}}"
        return _view(_compose([text], {"none": self.base, "rows": rows}), self.base.columns)


def _view(query: lp.Query, columns: Sequence[str]) -> lp.ViewReference:
    """A query as a relation, with an id that differs from that of what it reads."""
    below = (n.object_id for n in query.relations if isinstance(n, lp.Relation))
    object_id = f"{PREFIX}over_{next(below, '')}"
    return lp.ViewReference(object_id=object_id, name=_ROWS, columns=tuple(columns), query=query)


def _compose(pieces: Sequence[Piece], rows: Mapping[str, Rows]) -> lp.Query:
    """One query of texts of ours and of the user's; ``{name}`` in ours is one of ``rows``."""
    nodes: dict[str, lp.Node] = {}

    def name(node: lp.Node) -> str:
        relation = f"{PREFIX}r{len(nodes)}"
        nodes[relation] = node
        return relation

    texts = []
    for piece in pieces:
        if isinstance(piece, lp.Query):
            names = {r: name(n) for r, n in zip(piece.sql.relations, piece.relations, strict=True)}
            texts.append(rewrite(piece.sql, relation=names.__getitem__).text)
            continue
        text = piece
        for key in (k for k in rows if f"{{{k}}}" in piece):
            text = text.replace(f"{{{key}}}", name(rows[key]))
        texts.append(text)
    query = parse_as(Select, "".join(texts), "rows of a statement").query
    return lp.Query(sql=query, relations=tuple(nodes[ref.parts[-1]] for ref in query.relations))


def _changes(node: lp.ChangesInput) -> lp.ViewReference:
    """``changes(x)``, as what came and what went."""
    columns, diff = node.columns[:-1], backtick(node.columns[-1])
    came = lp.InsertsInput(
        object_id=node.object_id,
        name=node.name,
        columns=columns,
        with_snapshot=node.with_snapshot,
    )
    went = lp.DeletesInput(object_id=node.object_id, name=node.name, columns=columns)
    column_list = ", ".join(backtick_all(columns))
    text = (
        f"SELECT {column_list}, count(*) AS {diff} FROM {{came}} GROUP BY {column_list} UNION ALL"
        f" SELECT {column_list}, - count(*) AS {diff} FROM {{gone}} GROUP BY {column_list}"
    )
    return _view(_compose([text], {"came": came, "gone": went}), node.columns)


def _as_deletes(node: lp.Node) -> lp.Node:
    if not isinstance(node, lp.InsertsInput):
        return node
    return lp.DeletesInput(object_id=node.object_id, name=node.name, columns=node.columns)


def _values(
    target: Sequence[Column], values: Mapping[str, Piece | None], otherwise: str | None = None
) -> Pieces:
    """SELECT of values as they are stored; of columns without one NULL, or ``otherwise.column``."""
    pieces: Pieces = []
    for i, column in enumerate(target):
        name = backtick(column.name)
        pieces.append(", " if i else "SELECT ")
        if column.name not in values and otherwise is not None:
            pieces.append(f"{otherwise}.{name} AS {name}")
            continue
        length = char_length(column.type)
        prefix, suffix = ("", "") if length is None else ("rpad(", f", {length})")
        pieces += [f"{prefix}CAST((", values.get(column.name) or "NULL"]
        pieces.append(f") AS {plain_type(column.type)}){suffix} AS {name}")
    return pieces


@dataclass(frozen=True, slots=True)
class _Step:
    """One statement, over the outputs as it finds them.

    Attributes:
        output: the one that it writes. input_views: what a body sees of an input that it does not
            see whole, by the input's id. again: rows that are read beside what an input inserted.
    """

    outputs: Mapping[str, _OutputState]
    output: _OutputState
    name: str
    input_views: Mapping[str, lp.ViewReference]
    again: Mapping[str, lp.NormalReference]

    def after(self, statement: lp.Insert | Change) -> _OutputState:
        """The output after the statement."""
        match statement:
            case lp.Insert():
                return self._insert(statement)
            case lp.Merge():
                return self._merge(statement)
            case lp.Delete() | lp.Update():
                return self._change(statement)

    def _insert(self, node: lp.Insert) -> _OutputState:
        target = {fold(c.name): c for c in node.target}
        columns = tuple(target[fold(c)] for c in node.filled_columns)
        query = self._rebind(node.query)
        places = [f"{COLUMN_}{i}" for i in range(len(columns))]
        values: dict[str, Piece | None] = {a.column: a.value for a in node.defaults}
        values |= {c.name: place for c, place in zip(columns, places, strict=True)}
        pieces = [*_values(node.target, values), " FROM {rows}"]
        query_of_all = self._query(pieces, _view(query, places))
        write = WrittenRows(statement=f"{self.name}: INSERT", columns=columns, query=query)
        view = _view(query_of_all, [c.name for c in node.target])
        rows = self.output.compared_as_stored(view)
        return replace(self.output, proposals=(*self.output.proposals, _ProposedRows(write, rows)))

    def _change(self, node: lp.Delete | lp.Update) -> _OutputState:
        """After a DELETE or an UPDATE: the rows that do not match, and the new ones."""
        ctes: Pieces = [] if node.ctes is None else [node.ctes, " "]
        where: Piece = "true" if node.where is None else node.where
        of = f" FROM {{rows}} AS {node.alias} WHERE ("
        output = self._rows_left([*ctes, "SELECT *", of, where, ") IS NOT TRUE"])
        if isinstance(node, lp.Delete):
            return output
        values = _values(node.target, {a.column: a.value for a in node.assignments}, node.alias)
        new_rows = self._new_rows("UPDATE", [*ctes, *values, of, where, ")"])
        return replace(output, proposals=(*output.proposals, new_rows))

    def _merge(self, node: lp.Merge) -> _OutputState:
        merge = _Merge(node)
        output = self.output
        if merge.of(MergeWhen.MATCHED) or merge.of(MergeWhen.NOT_MATCHED_BY_SOURCE):
            output = self._rows_left(merge.rows_left())
        new_rows = [
            self._new_rows(f"MERGE, WHEN {when.name.replace('_', ' ')}", pieces)
            for when, pieces in merge.clause_rows()
        ]
        return replace(output, proposals=(*output.proposals, *new_rows))

    def _new_rows(self, does: str, pieces: Pieces) -> _ProposedRows:
        """The rows of a query over all that is held, ``{rows}``."""
        query = self._query(pieces, self.output.contents())
        write = WrittenRows(
            statement=f"{self.name}: {does}", columns=self.output.target, query=query
        )
        view = _view(query, self.output.base.columns)
        return _ProposedRows(write, self.output.compared_as_stored(view))

    def _rows_left(self, pieces: Pieces) -> _OutputState:
        """What is left of the output: the rows of a query over each part of it, ``{rows}``."""
        output, columns = self.output, self.output.base.columns
        proposals = []
        for one in output.proposals:
            query = self._query(pieces, one.rows)
            write = replace(one.write, columns=output.target, query=query)
            proposals.append(_ProposedRows(write, _view(query, columns)))
        stored_rows = _view(self._query(pieces, output.stored_rows), columns)
        return replace(output, stored_rows=stored_rows, proposals=tuple(proposals))

    def _query(self, pieces: Sequence[Piece], rows: Rows) -> lp.Query:
        pieces_bound = [p if isinstance(p, str) else self._rebind(p) for p in pieces]
        return _compose(pieces_bound, {"rows": rows})

    def _rebind(self, query: lp.Query) -> lp.Query:
        """A text over what the outputs hold now."""

        def change(node: lp.Node) -> lp.Node:
            match node:
                case lp.SelfReference():
                    return self.outputs[node.object_id].contents()
                case lp.ChangesInput():
                    return lp.map_nodes(_changes(node), change)
                case lp.InsertsInput() if node.object_id in self.again:
                    return self._with_again(node)
                case lp.InsertsInput() if node.object_id in self.input_views:
                    return self.input_views[node.object_id]
                case lp.DeletesInput() if node.object_id in self.input_views:
                    return lp.map_nodes(self.input_views[node.object_id], _as_deletes)
                case _:
                    return node

        query_over_outputs = lp.map_nodes(query, change)
        assert isinstance(query_over_outputs, lp.Query)  # it stays one
        return query_over_outputs

    def _with_again(self, node: lp.InsertsInput) -> lp.ViewReference:
        """What came, with the rows that are read beside it."""
        rows: dict[str, Rows] = {
            "came": self.input_views.get(node.object_id, node),
            "again": self.again[node.object_id],
        }
        columns = ", ".join(backtick_all(node.columns))
        text = " UNION ALL ".join(f"SELECT {columns} FROM {{{name}}}" for name in rows)
        return _view(_compose([text], rows), node.columns)


@dataclass(frozen=True, slots=True)
class _Merge:
    """The queries of a MERGE, over ``{rows}``."""

    node: lp.Merge

    def of(self, when: MergeWhen) -> list[lp.MergeClause]:
        """The clauses for one kind of rows, in order."""
        return [c for c in self.node.clauses if c.when is when]

    def clause_rows(self) -> Iterator[tuple[MergeWhen, Pieces]]:
        """What each clause writes."""
        for when in MergeWhen:
            where: Pieces = []
            for clause in self.of(when):
                before = [*where, " AND " if where else " WHERE "]
                if clause.condition is not None:
                    where = [*before, "(", clause.condition, ")"]
                if clause.action is not MergeAction.DELETE:
                    by_column = {a.column: a.value for a in clause.assignments}
                    otherwise = None if when is MergeWhen.NOT_MATCHED else self.node.alias
                    values = _values(self.node.target, by_column, otherwise)
                    yield when, [*values, " FROM ", *self._from(when), *where]
                where = [*where, " IS NOT TRUE"]  # the parser lets only the last have none

    def _from(self, when: MergeWhen) -> Pieces:
        rows, alias = f"{{rows}} AS {self.node.alias}", self.node.alias
        match when:
            case MergeWhen.MATCHED:
                return [rows, *self._join_source("JOIN")]
            case MergeWhen.NOT_MATCHED:
                source: Pieces = ["(", self.node.source, f") AS {self.node.source_alias}"]
                return [*source, f" LEFT ANTI JOIN {rows} ON (", self.node.on, ")"]
            case MergeWhen.NOT_MATCHED_BY_SOURCE:
                return [
                    f"(SELECT * FROM {rows}",
                    *self._join_source("LEFT ANTI JOIN"),
                    f") AS {alias}",
                ]

    def _join_source(self, join: str, also: Sequence[Piece] = ()) -> Pieces:
        source: Pieces = [f" {join} (", self.node.source, f") AS {self.node.source_alias}"]
        return [*source, " ON ((", self.node.on, ")", *also, ")"]

    def rows_left(self) -> Pieces:
        """The held rows that no clause is about."""
        alias = self.node.alias
        matched_clauses = self.of(MergeWhen.MATCHED)
        alone = self.of(MergeWhen.NOT_MATCHED_BY_SOURCE)
        pieces: Pieces = [f"SELECT * FROM {{rows}} AS {alias}"]
        if matched_clauses:
            pieces += self._join_source("LEFT ANTI JOIN", [" AND (", *_any(matched_clauses), ")"])
        if not alone:
            return pieces
        pieces = ["SELECT * FROM (", *pieces, f") AS {alias}", *self._join_source("LEFT SEMI JOIN")]
        if any(c.condition is None for c in alone):
            return pieces
        others = self._from(MergeWhen.NOT_MATCHED_BY_SOURCE)
        return [
            *pieces,
            " UNION ALL SELECT * FROM ",
            *others,
            " WHERE (",
            *_any(alone),
            ") IS NOT TRUE",
        ]


def _any(clauses: Sequence[lp.MergeClause]) -> Pieces:
    """Whether one of them applies."""
    pieces: Pieces = ["false"]
    for clause in clauses:
        pieces += [" OR true"] if clause.condition is None else [" OR (", clause.condition, ")"]
    return pieces
