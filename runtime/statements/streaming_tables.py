"""CREATE STREAMING TABLE, and the flows that append to it.

A streaming table is a continual task whose body has an INSERT for each of its flows; before the
first flow it is a name, perhaps with columns. A flow that is added takes in what is there: at one T
the body runs with the new INSERT over the whole contents of its streams, and from the T after that
over what comes. Both definitions are bound at once, so each row is taken in once, whatever is
killed meanwhile. With ONCE the second definition is the one from before.
"""

from collections.abc import Iterator, Sequence

from ctsql.catalog.errors import DataError, error, not_supported, unknown_relation
from ctsql.catalog.items import Flow, Item, ObjectKind
from ctsql.catalog.names import Name, fold, quote
from ctsql.catalog.schemas import quote_text
from ctsql.catalog.spans import Span
from ctsql.planner.binding import qualify
from ctsql.planner.binding.streams import check_appends
from ctsql.planner.syntax import ast as st, parse_as, splice
from ctsql.planner.syntax.desugar.task_forms import comment_above
from ctsql.planner.syntax.tokens.tokenizer import say_the_same
from ctsql.runtime.statements.create import Creation
from ctsql.runtime.statements.create_flow import clauses_of
from ctsql.runtime.statements.redefinition import (
    Definition,
    Redefinition,
    column_list,
    unless_overtaken,
)

_TABLE, _FLOW = "CREATE STREAMING TABLE", "CREATE FLOW"


_Filling = st.CreateStreamingTable | st.CreateAppendFlow


def compile_task(
    statement: _Filling, column_list: str, comment: str | None
) -> st.CreateContinualTask:
    """The continual task that a streaming table with one flow is.

    Args:
        statement: the one with the flow's query.
        column_list: the columns in parentheses, or empty.

    Raises:
        NOT_SUPPORTED: the query gives other rows over the parts of a stream than over all.
    """
    assert statement.appending is not None  # the caller looked
    check_appends(statement.appending.query, statement.span)
    comment_clause = f" COMMENT {quote_text(comment)}" if comment is not None else ""
    inputs = ", ".join(s.span.text for s in statement.appending.sources)
    every = statement.every if isinstance(statement, st.CreateStreamingTable) else None
    options = f" WITH (COALESCE = '{every}')" if every else ""
    body = comment_above(statement.span.text, statement.appending.inserts)
    head = f"{statement.target.span.text} {column_list}".rstrip()
    text = (
        f"CREATE CONTINUAL TASK {head}{comment_clause} ON INPUT {inputs}{options} AS (\n{body}\n)"
    )
    return parse_as(st.CreateContinualTask, text, f"{statement.span.source.name} (compiled)")


class StreamingTables(Redefinition):
    """The statements about streaming tables and their flows; each returns the status line."""

    @unless_overtaken
    def create_table(self, statement: st.CreateStreamingTable) -> str:
        """CREATE [OR REFRESH] STREAMING TABLE.

        Raises:
            OBJECT_EXISTS, WRONG_OBJECT_KIND: something else has the name.
            NOT_SUPPORTED: the query gives other rows over the parts of a stream than over all.
        """
        name = qualify(statement.target, self.names.search_schema)
        if statement.appending is not None:
            check_appends(statement.appending.query, statement.span)
        self.engine.timeline.refresh()
        old = self.engine.refresh_catalog().find(name)
        if old is not None and (statement.or_refresh or statement.if_not_exists):
            return self._create_again(statement, old)
        if statement.appending is None:
            return Creation(self.names).declare_streaming_table(statement)
        return self._create_filled(statement, None)

    def _create_again(self, statement: st.CreateStreamingTable, old: Item) -> str:
        """The statement where its name is taken: by a streaming table, or by something else."""
        is_target = old.kind is ObjectKind.MATERIALIZED_VIEW and bool(old.flow)
        if not (old.kind is ObjectKind.STREAMING_TABLE or old.flows or is_target):
            hint = f"Drop it first: DROP {old.kind.keyword} {old.name}"
            raise old.wrong_kind("streaming table", hint, statement.target.span)
        if statement.if_not_exists:
            return f"{_TABLE} (exists already)"
        appending = statement.appending
        if appending is None:
            _check_same_columns(statement, old)
            return f"{_TABLE} (unchanged)"
        if old.kind is ObjectKind.STREAMING_TABLE:
            return self._create_filled(statement, old)
        if is_target:
            hint = f"It shows what flow {self._writer(old)} applies."
            what = "a query for the target of AUTO CDC"
            raise not_supported(statement.target.span, what, hint=hint)
        item, task = self.definition(statement.target)
        _check_same_columns(statement, item)
        flows = self._flows(item)
        flow = next((f for f in flows if fold(f.name) == fold(item.name.name)), None)
        text = clauses_of(statement)
        if flow is None:
            self._add_flow(item, task, Flow(name=item.name.name, text=text), appending, statement)
            return f"{_TABLE} (with a new flow)"
        if say_the_same(flow.text, text):
            return f"{_TABLE} (unchanged)"
        self._replace_flow(item, task, flow, text, appending, statement.span)
        return f"{_TABLE} (replaced)"

    def _create_filled(self, statement: st.CreateStreamingTable, table: Item | None) -> str:
        assert statement.appending is not None  # the caller looked
        name = qualify(statement.target, self.names.search_schema).name
        flow = Flow(name=name, text=clauses_of(statement))
        self._check_free(statement.target)
        columns, comment = statement.column_list, statement.comment
        if table is not None:
            _check_same_columns(statement, table)
            columns = columns or _column_list(table)
            comment = table.comment if comment is None else comment
        self._create_task(statement, flow, columns, comment, table)
        return _TABLE

    def _create_task(
        self,
        statement: _Filling,
        flow: Flow,
        column_list: str,
        comment: str | None,
        table: Item | None,
    ) -> None:
        task = compile_task(statement, column_list, comment)
        Creation(self.names, flows=(flow,), fills=table).create_task(task)

    # ---- CREATE FLOW ... AS INSERT INTO

    @unless_overtaken
    def create_flow(self, statement: st.CreateAppendFlow) -> str:
        """CREATE [OR REPLACE] FLOW ... AS INSERT INTO [ONCE] table.

        Raises:
            UNKNOWN_RELATION, WRONG_OBJECT_KIND: the target is no streaming table.
            OBJECT_EXISTS: there is a flow of that name.
            NOT_SUPPORTED: the query gives other rows over the parts of a stream than over all;
                the flow is there with another table or source.
            TASK_FAILED: what is there cannot be taken in; the table is as it was.
        """
        check_appends(statement.appending.query, statement.span)
        table = self._table(statement)
        name = qualify(statement.name, self.names.search_schema)
        if fold(name.schema) != fold(table.name.schema):
            hint = f"Call it {Name(table.name.schema, name.name).qualified()}."
            what = "a flow in another schema than its table"
            raise not_supported(statement.name.span, what, hint=hint)
        old, holder = self._existing(name)
        if old is not None and holder is not None:
            if statement.if_not_exists:
                same = holder.id == table.id and say_the_same(old.text, clauses_of(statement))
                return f"{_FLOW} (exists already{'' if same else ', otherwise defined'})"
            return self._create_flow_again(statement, table, old, holder)
        flow = Flow(name=name.name, text=clauses_of(statement), once=statement.once)
        if table.kind is ObjectKind.STREAMING_TABLE:
            if statement.once:
                what = "ONCE in the first flow of a streaming table"
                hint = "Create the flow that follows a STREAM first."
                why = "Nothing says when it is to run."
                raise not_supported(statement.span, what, why=why, hint=hint)
            self._create_task(statement, flow, _column_list(table), table.comment, table)
            return _FLOW
        item, task = self.definition(statement.target)
        self._add_flow(item, task, flow, statement.appending, statement)
        return _FLOW

    def _table(self, statement: st.CreateAppendFlow) -> Item:
        name = qualify(statement.target, self.names.search_schema)
        self.engine.timeline.refresh()
        table = self.engine.refresh_catalog().find(name)
        if table is None:
            hint = f"Type first: CREATE STREAMING TABLE {statement.target.span.text}"
            raise unknown_relation(name, hint, statement.target.span, kind="streaming table")
        if table.kind is not ObjectKind.STREAMING_TABLE and not table.flows:
            hint = "Flows append to what CREATE STREAMING TABLE made."
            raise table.wrong_kind("streaming table", hint, statement.target.span)
        return table

    def _existing(self, name: Name) -> tuple[Flow | None, Item | None]:
        """The flow of a name, with the object that it belongs to."""
        for table in self.engine.catalog:
            is_near = fold(table.name.schema) == fold(name.schema)
            # Not by the newest definition alone: one that a killed process left is not in force.
            if is_near and any(revision.flows for revision in table.revisions):
                flows = self._flows(table)
                flow = next((f for f in flows if fold(f.name) == fold(name.name)), None)
                if flow is not None:
                    return flow, table
        task = self.engine.catalog.find(name)
        if task is not None and task.flow:
            return Flow(name=name.name, text=task.flow), task
        return None, None

    def _check_free(self, ref: st.RelationRef) -> None:
        """Raise OBJECT_EXISTS if there is a flow of that name."""
        name = qualify(ref, self.names.search_schema)
        if self._existing(name)[0] is not None:
            hint = "Choose another name, or type CREATE OR REPLACE FLOW."
            raise error("OBJECT_EXISTS", span=ref.span, kind="flow", name=str(name), hint=hint)

    def _create_flow_again(
        self, statement: st.CreateAppendFlow, table: Item, old: Flow, holder: Item
    ) -> str:
        if not statement.or_replace:
            self._check_free(statement.name)
        if holder.id != table.id:
            what = "another target for a flow that is there"
            raise not_supported(statement.target.span, what, why=f'It writes "{holder.name}".')
        text = clauses_of(statement)
        if say_the_same(old.text, text):
            return f"{_FLOW} (unchanged)"
        if old.once or statement.once:
            what = "replacing a flow that runs once"
            hint = "Create a flow of another name."
            raise not_supported(statement.span, what, why="It has run.", hint=hint)
        item, task = self.definition(statement.target)
        self._replace_flow(item, task, old, text, statement.appending, statement.span)
        return f"{_FLOW} (replaced)"

    # ---- changing the task

    def _flows(self, item: Item) -> tuple[Flow, ...]:
        """The flows of the definition that was in force when the timeline was looked at last."""
        return self.engine.relations.current(item).flows

    def _number(self, item: Item) -> int:
        """The number of that definition."""
        return self.engine.relations.current(item).revision

    def _add_flow(
        self,
        item: Item,
        task: st.CreateContinualTask,
        flow: Flow,
        appending: st.Appending,
        statement: st.Statement,
    ) -> None:
        self._check_schema(item, statement.span)
        if any(o.name == "COALESCE" for o in task.options):
            what = "a second flow for a streaming table with a SCHEDULE"
            hint = "Make the table without SCHEDULE."
            why = "Its flows do not begin together."
            raise not_supported(statement.span, what, why=why, hint=hint)
        flows = (*self._flows(item), flow)
        input_ids = set(self._ids(i.ref for i in task.inputs))
        new = [s for s in appending.sources if self._ids([s])[0] not in input_ids]
        inputs = st.Edit(
            span=task.inputs[-1].span.behind, text="".join(f", {s.span.text}" for s in new)
        )
        place = task.span.source.at(task.body_span.stop - 1)
        edits = [*column_list(item, task), inputs] if new else list(column_list(item, task))

        def with_insert(insert: str) -> str:
            body = comment_above(statement.span.text, insert)
            return splice(task.span, [*edits, st.Edit(span=place, text=f";\n{body}\n")]).text

        once = Definition(text=with_insert(appending.fills), flows=flows, once=True)
        stays = splice(task.span, column_list(item, task)).text
        then = stays if flow.once else with_insert(appending.inserts)
        over = self._number(item)
        self._check_running(item)
        begin = self.redefine(item, once, Definition(text=then, flows=flows), over=over)
        self._take_in(item, begin, Definition(text=stays, flows=flows[:-1]))

    def _take_in(self, item: Item, begin: int, before: Definition) -> None:
        """Run the T at which a flow takes in what is there; if it fails, undo the flow."""
        engine = self.engine
        item = engine.relations.item(item.id)
        if engine.relations.is_suspended(item):
            return  # it runs when the table is resumed
        try:
            engine.advance([item], begin)
        except DataError as problem:
            if problem.condition != "TASK_FAILED":
                raise
            self.engine.timeline.refresh()
            if self._flows(item)[:-1] == before.flows:  # else another process changed it since
                self.redefine(item, before, gives_up=True)
            raise

    def _check_running(self, item: Item) -> None:
        """Raise TASK_FAILED where the table has failed: its next T is not the flow's."""
        if not self.engine.relations.is_suspended(item):
            self.engine.advance([item], self.engine.mint())

    def _replace_flow(
        self,
        item: Item,
        task: st.CreateContinualTask,
        old: Flow,
        text: str,
        appending: st.Appending,
        place: Span,
    ) -> None:
        """Another query for a flow, from the next T on."""
        self._check_schema(item, place)
        flows = self._flows(item)
        index = _place_of(old, flows)
        part = task.body[index]
        if {*self._ids(_streams_of(part))} - {item.id} != {*self._ids(appending.sources)}:
            what = "another STREAM for a flow that is there"
            why = f"It reads {', '.join(r.span.text for r in _streams_of(part))}."
            hint = "DROP FLOW, then CREATE FLOW takes in what is there."
            raise not_supported(place, what, why=why, hint=hint)
        body = comment_above(place.text, appending.inserts)
        edit = st.Edit(span=_whole(task, index), text=f"{';' if index else ''}\n{body}")
        edits = [*column_list(item, task), edit]
        new_flows = tuple(Flow(name=f.name, text=text) if f == old else f for f in flows)
        text = splice(task.span, edits).text
        self.redefine(item, Definition(text=text, flows=new_flows), over=self._number(item))

    @unless_overtaken
    def drop_flow(self, statement: st.DropObject) -> str | None:
        """DROP FLOW of one that appends; its rows stay. None where there is no such flow."""
        self.engine.timeline.refresh()
        name = qualify(statement.target, self.names.search_schema)
        self.engine.refresh_catalog()
        old, holder = self._existing(name)
        if old is None or holder is None or not holder.flows:
            return None
        span = statement.target.span
        ref = st.RelationRef(parts=(holder.name.schema, holder.name.name), span=span)
        item, task = self.definition(ref)
        self._check_schema(item, span)
        flows = self._flows(item)
        other_flows = tuple(f for f in flows if f != old)
        if not old.once and all(f.once for f in other_flows):
            what = "dropping the last flow of a streaming table"
            hint = f"Type: DROP STREAMING TABLE {item.name}, or CREATE OR REPLACE FLOW"
            why = "Nothing would say when it runs."
            raise not_supported(statement.target.span, what, why=why, hint=hint)
        edits = list(column_list(item, task))
        if not old.once:
            edits += self._without(task, _place_of(old, flows))
        definition = Definition(text=splice(task.span, edits).text, flows=other_flows)
        is_newest = old == flows[-1]  # the only one that may not have taken in what was there
        self.redefine(item, definition, over=self._number(item), gives_up=is_newest)
        return "DROP FLOW"

    def _without(self, task: st.CreateContinualTask, place: int) -> Iterator[st.Edit]:
        """The edits that take a statement out of a body, and the inputs that only it reads."""
        span = _whole(task, place)
        if not place:  # the next one is the first: what parts the two goes as well
            text = task.span.source.text
            span = Span(span.source, span.start, text.index(";", span.stop) + 1)
        yield st.Edit(span=span, text="")
        others = [p for i, p in enumerate(task.body) if i != place]
        input_ids = set(self._ids(r for p in others for r in _streams_of(p)))
        inputs = [i.span.text for i in task.inputs if self._ids([i.ref])[0] in input_ids]
        inputs_span = Span(task.span.source, task.inputs[0].span.start, task.inputs[-1].span.stop)
        yield st.Edit(span=inputs_span, text=", ".join(inputs))

    def _check_schema(self, item: Item, place: Span) -> None:
        if fold(self.names.search_schema) != fold(item.search_schema):
            what = "changing a streaming table from another schema than the one it was made in"
            why = f'Names of "{item.name}" are looked up in "{item.search_schema}".'
            hint = f"Type first: USE {quote(item.search_schema)}"
            raise not_supported(place, what, why=why, hint=hint)

    def _ids(self, refs: Iterator[st.RelationRef] | Sequence[st.RelationRef]) -> list[str]:
        """The ids of relations, by their names of now."""
        binder = self.names.binder()
        return [binder.resolve(ref).id for ref in refs]

    def _writer(self, target: Item) -> str:
        return ", ".join(r.name.qualified() for r in target.reads)


def _place_of(flow: Flow, flows: Sequence[Flow]) -> int:
    """The index of a flow's statement in the body."""
    return [f for f in flows if not f.once].index(flow)


def _whole(task: st.CreateContinualTask, place: int) -> Span:
    """A statement of a body with what stands in front of it: comments and a semicolon."""
    begin = task.body[place - 1].span.stop if place else task.body_span.start + 1
    return Span(task.span.source, begin, task.body[place].span.stop)


def _streams_of(part: st.BodyStatement) -> list[st.RelationRef]:
    """What a flow's statement names alone: its inputs, as all else is read with contents()."""
    return [r for text in st.texts_of(part) for r in text.relations if r.change is None]


def _column_list(table: Item) -> str:
    columns = ", ".join(c.ddl() for c in table.columns)
    return f"({columns})" if columns else ""


def _check_same_columns(statement: st.CreateStreamingTable, old: Item) -> None:
    """Refuse a list of other columns than a streaming table has; none says nothing of them."""
    names = [fold(c.name) for c in statement.columns]
    if names and names != [fold(c.name) for c in old.columns]:
        what = "other columns for a streaming table that is there"
        why = f"It has {', '.join(c.ddl() for c in old.columns) or 'none yet'}."
        hint = f"DROP STREAMING TABLE {old.name} gives up its rows."
        raise not_supported(statement.target.span, what, why=why, hint=hint)
