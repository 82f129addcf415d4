"""Compares two definitions of an object, part by part. Pure.

Texts are compared by their tokens and the objects they mean: case, blanks, comments and the
spelling of a name are ignored. Different texts may still mean the same;
:mod:`ctsql.runtime.pipelines.binding` compares Spark's plans.
"""

from collections.abc import Callable, Iterable
from enum import Enum

from ctsql.catalog.names import Name, fold
from ctsql.catalog.refreshes import RefreshPart
from ctsql.catalog.spans import Source, Span
from ctsql.planner.binding.binder import qualify
from ctsql.planner.syntax import ast as st, splice
from ctsql.planner.syntax.tokens.name_scopes import QualifiedNames
from ctsql.planner.syntax.tokens.tokenizer import words_of

Meaning = Callable[[Name], str]
"""Returns a relation's substitute in compared texts, equal for equal objects."""


class Part(Enum):
    """A part of a definition, as messages name it."""

    QUERY = "query"
    BODY = "body"
    INPUTS = "inputs"
    COLUMNS = "columns"
    OPTIONS = "options"
    LAYOUT = "layout"
    CONSTRAINTS = "constraints"
    DEFAULTS = "defaults"
    COMMENT = "comment"
    BELOW = "query of a view that it reads"


class Words:
    """The parts of definitions as words; ``schema`` is that of unqualified names."""

    def __init__(self, schema: str, meaning: Meaning) -> None:
        self._schema, self._meaning = schema, meaning

    def parts(self, statement: st.Statement) -> dict[Part, object]:
        """Values of the parts of a definition, comments left out: equal for equal parts."""
        match statement:
            case st.CreateView():
                return {
                    Part.QUERY: self.text(statement.query),
                    Part.COLUMNS: [fold(c.name) for c in statement.columns],
                }
            case st.CreateMaterializedView():
                return {
                    Part.QUERY: self.text(statement.query),
                    Part.COLUMNS: [fold(c.name) for c in statement.columns],
                    Part.CONSTRAINTS: _constraints(statement.constraints),
                    Part.OPTIONS: _options(statement.options),
                }
            case st.CreateContinualTask():
                return {
                    Part.BODY: self._body(statement),
                    Part.INPUTS: [self._input(i) for i in statement.inputs],
                    Part.COLUMNS: self._columns(statement),
                    Part.DEFAULTS: [
                        [(fold(c.name), _text(c.default)) for c in columns if c.default]
                        for columns in (statement.columns, *(o.columns for o in statement.outputs))
                    ],
                    Part.CONSTRAINTS: _constraints(
                        statement.constraints, *(o.constraints for o in statement.outputs)
                    ),
                    Part.OPTIONS: _options(statement.options),
                }
            case st.CreateTable():
                query = None if statement.query is None else self.text(statement.query)
                return {Part.QUERY: query, Part.LAYOUT: _layout(statement)}
            case st.CreateFlow():
                return {Part.BODY: self._flow(statement)}
            case _:
                raise TypeError(f"{type(statement).__name__} makes no object")

    def text(self, text: st.SqlText) -> list[str]:
        """The words of a piece of SQL."""
        return self._spliced(text.span, [text], ())

    def _spliced(
        self, span: Span, texts: Iterable[st.SqlText], aliases: Iterable[str]
    ) -> list[str]:
        texts = list(texts)
        edits: list[st.Edit] = []
        for text in texts:
            edits += text.edits
            for ref in text.relations:
                edits += self._name_edits(ref, ref.name_span, aliases)
        for place, ref in QualifiedNames(texts, self._schema).qualifiers():
            edits += self._name_edits(ref, place, aliases)
        inside = [
            e
            for e in edits
            if e.span.source is span.source and span.start <= e.span.start < span.stop
        ]
        return words_of(Source(splice(span, inside).text, "words").whole())

    def _name_edits(
        self, ref: st.RelationRef, place: Span, aliases: Iterable[str]
    ) -> Iterable[st.Edit]:
        is_alias = len(ref.parts) == 1 and fold(ref.parts[0]) in aliases
        if ref.file is not None or is_alias:
            return
        yield st.Edit(span=place, text=self._mean(ref))

    def _mean(self, ref: st.RelationRef) -> str:
        return f"`{self._meaning(qualify(ref, self._schema))}`"

    def _body(self, task: st.CreateContinualTask) -> list[str]:
        aliases = [fold(i.alias) for i in task.inputs if i.alias]
        texts = [text for part in task.body for text in st.texts_of(part)]
        targets = [st.SqlText(span=p.target.span, relations=(p.target,)) for p in task.body]
        return self._spliced(task.body_span, [*texts, *targets], aliases)

    def _input(self, task_input: st.TaskInput) -> tuple[str, str, list[str]]:
        alias = fold(task_input.alias) if task_input.alias else ""
        return (
            self._mean(task_input.ref),
            alias,
            [] if task_input.rows is None else self.text(task_input.rows),
        )

    def _columns(self, task: st.CreateContinualTask) -> object:
        lists = [task.columns, *(o.columns for o in task.outputs)]
        return [
            [(fold(c.name), fold(c.type or ""), c.nullable) for c in columns] for columns in lists
        ]

    def _flow(self, flow: st.CreateFlow) -> list[str]:
        refs = [st.SqlText(span=r.span, relations=(r,)) for r in (flow.target, flow.source)]
        whole = Span(flow.span.source, flow.name.span.stop, flow.span.stop)
        return self._spliced(whole, refs, ())


def _constraints(*lists: Iterable[st.ConstraintDef]) -> object:
    return [
        [
            (fold(c.name), c.action, _text(c.predicate), c.unique, [*map(fold, c.columns)])
            for c in constraints
        ]
        for constraints in lists
    ]


def _text(text: st.SqlText | None) -> list[str]:
    return [] if text is None else words_of(text.span)


def _options(options: Iterable[st.Option]) -> list[tuple[str, str]]:
    values = ((o.name, o.value) for o in options)
    return sorted(
        (name, " ".join(v.text.casefold().split()) if isinstance(v, RefreshPart) else repr(v))
        for name, v in values
    )


def _layout(table: st.CreateTable) -> list[str]:
    """The words after a table's name without its columns, its comment and its query."""
    source, start, stop = table.span.source, table.target.span.stop, table.span.stop
    if table.query is not None:
        stop = table.query.span.start
    pieces = [(start, stop)]
    if table.columns_span is not None:
        pieces = [(start, table.columns_span.start), (table.columns_span.stop, stop)]
    words = [word for a, b in pieces for word in words_of(Span(source, a, b))]
    if "comment" in words:
        place = words.index("comment")
        del words[place : place + 2]
    return [word for word in words if word not in ("using", "delta", "as")]
