"""Reads a folder of SQL as definitions, in any order.

Files are read in order of name. Each definition comes after those it reads. `USE schema` holds to
the end of its file. IF NOT EXISTS and OR REPLACE have no effect here. Names that the folder does
not define may be objects of a warehouse: the binder resolves them.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter

from ctsql.catalog.errors import CtsqlError, error, unknown_relation
from ctsql.catalog.items import ObjectKind
from ctsql.catalog.names import DEFAULT_SCHEMA, Name, fold, quarantine_name
from ctsql.catalog.spans import Source, Span
from ctsql.planner.binding.binder import qualify
from ctsql.planner.syntax import ast as st, parse, split

Defining = (
    st.CreateTable
    | st.CreateView
    | st.CreateMaterializedView
    | st.CreateContinualTask
    | st.CreateFlow
)
"""The statements that make an object with rows or a query."""

TAKEN = (
    "CREATE TABLE, VIEW, MATERIALIZED VIEW, CONTINUAL TASK, FLOW and SCHEMA, COMMENT ON, and USE"
)
_ROWS = {"INSERT", "UPDATE", "DELETE", "MERGE", "COPY"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDefinition:
    """An object of a folder."""

    statement: Defining  # the statement that creates it
    schema: str  # the schema of its unqualified names
    # the names that it creates, its own first; then a task's outputs and a flow's target
    names: tuple[Name, ...]
    reads: tuple[Name, ...]  # the relations it names, but for itself, in order of text
    comments: tuple[st.CommentOn, ...] = ()  # the folder's COMMENT ON about it and its columns

    @property
    def name(self) -> Name:
        """Its own name."""
        return self.names[0]

    @property
    def span(self) -> Span:
        """The place of its name."""
        statement = self.statement
        return (
            statement.name.span if isinstance(statement, st.CreateFlow) else statement.target.span
        )

    @property
    def keyword(self) -> str:
        """Its kind, as a statement spells it: ``CONTINUAL TASK``."""
        if isinstance(self.statement, st.CreateFlow):
            return "FLOW"
        return self.kind.keyword

    @property
    def kind(self) -> ObjectKind:
        """The kind of the object that has its own name; a flow's is a task."""
        return self.statement.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """A statement that is no definition, of a kind that the caller wants, with its schema."""

    statement: st.Statement
    schema: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """The definitions of a folder."""

    definitions: tuple[FileDefinition, ...] = ()  # each after what it reads
    schemas: tuple[st.CreateSchema, ...] = ()  # the created schemas
    # statements of the other kinds that the caller wants, in order of text
    others: tuple[Other, ...] = ()

    def find(self, name: Name) -> FileDefinition | None:
        """The definition that makes an object of this name."""
        return next((d for d in self.definitions if name in d.names), None)

    def closure(self, names: Iterable[Name], without: Container[Name] = ()) -> list[FileDefinition]:
        """The definitions that make these objects, and all they read; each after what it reads.

        ``without``: names of objects that are made elsewhere.
        """
        waiting, closure = list(names), set[Name]()
        while waiting:
            name = waiting.pop()
            definition = None if name in without else self.find(name)
            if definition is not None and definition.name not in closure:
                closure.add(definition.name)
                waiting += definition.reads
        return [d for d in self.definitions if d.name in closure]


def read_folder(sources: Sequence[Source], *, also: Sequence[type[st.Statement]] = ()) -> Folder:
    """Read the texts of a folder's files; ``also`` lists statements allowed besides definitions.

    Raises:
        NOT_A_DEFINITION: a statement creates no object. DEFINED_TWICE: two create the same one.
        RECURSIVE_DEFINITION: objects read each other in a circle.
        UNKNOWN_RELATION: COMMENT ON names an object that the folder does not define.
        And the errors of parsing.
    """
    contents = _Definitions(also=tuple(also))
    for source in sources:
        contents.read(source)
    for comment, schema in contents.comments:
        _attach(contents, comment, schema)
    definitions = _in_order(list(contents.definitions.values()))
    return Folder(
        definitions=tuple(definitions),
        schemas=tuple(contents.schemas.values()),
        others=tuple(contents.others),
    )


@dataclass(slots=True)
class _Definitions:
    also: tuple[type[st.Statement], ...]
    definitions: dict[Name, FileDefinition] = field(default_factory=dict)
    owners: dict[Name, Name] = field(default_factory=dict)
    schemas: dict[str, st.CreateSchema] = field(default_factory=dict)
    comments: list[tuple[st.CommentOn, str]] = field(default_factory=list)
    others: list[Other] = field(default_factory=list)

    def read(self, source: Source) -> None:
        schema = DEFAULT_SCHEMA
        for span in split(source):
            match statement := parse(span):
                case _ if isinstance(statement, self.also):
                    self.others.append(Other(statement=statement, schema=schema))
                case st.Test():
                    pass  # it defines no object
                case st.UseSchema():
                    schema = statement.name
                case st.CreateSchema():
                    name, place = statement.name, statement.name_span
                    first = self.schemas.setdefault(fold(name), statement)
                    if first is not statement:
                        raise _defined_twice("schema", name, place, first.name_span)
                case (
                    st.CreateMaterializedView(replaces=st.RelationRef())
                    | st.CreateContinualTask(replaces=st.RelationRef())
                ):
                    raise not_a_definition(statement)
                case st.CommentOn():
                    self.comments.append((statement, schema))
                case (
                    st.CreateTable()
                    | st.CreateView()
                    | st.CreateMaterializedView()
                    | st.CreateContinualTask()
                    | st.CreateFlow()
                ):
                    self._add(define(statement, schema))
                case _:
                    raise not_a_definition(statement)

    def _add(self, definition: FileDefinition) -> None:
        for name in definition.names:
            owner = self.owners.setdefault(name, definition.name)
            first = self.definitions.get(owner)
            if first is not None:
                raise _defined_twice(definition.keyword.lower(), name, definition.span, first.span)
        self.definitions[definition.name] = definition


def _defined_twice(kind: str, name: object, span: Span, first: Span) -> CtsqlError:
    return error("DEFINED_TWICE", span=span, kind=kind, name=str(name), place=first.place())


def define(statement: Defining, schema: str) -> FileDefinition:
    """The definition of one statement, with its names qualified by a schema."""
    if isinstance(statement, st.CreateFlow):
        refs = [statement.name, statement.target]
    elif isinstance(statement, st.CreateContinualTask):
        refs = [statement.target, *(o.target for o in statement.outputs)]
    else:
        refs = [statement.target]
    names = tuple(qualify(ref, schema) for ref in refs)
    if has_quarantine(statement):
        names = (*names, quarantine_name(names[0]))
    own = names if isinstance(statement, st.CreateContinualTask) else ()
    reads = (qualify(ref, schema) for ref in _relations(statement) if ref.file is None)
    return FileDefinition(
        statement=statement,
        schema=schema,
        names=names,
        reads=tuple(dict.fromkeys(name for name in reads if name not in own)),
    )


def has_quarantine(statement: Defining) -> bool:
    """Whether a task or view gets a quarantine by its definition."""
    match statement:
        case st.CreateContinualTask():
            lists = (statement.constraints, *(o.constraints for o in statement.outputs))
        case st.CreateMaterializedView():
            lists = (statement.constraints,)
        case _:
            return False
    quarantined = any(
        c.action is st.OnViolation.QUARANTINE for constraints in lists for c in constraints
    )
    return quarantined or any(
        o.name == "ON ERROR" and o.value == "quarantine" for o in statement.options
    )


def _relations(statement: Defining) -> Iterator[st.RelationRef]:
    match statement:
        case st.CreateTable():
            yield from statement.text.relations
        case st.CreateView() | st.CreateMaterializedView():
            yield from statement.query.relations
        case st.CreateFlow():
            yield statement.source
        case st.CreateContinualTask():
            yield from (task_input.ref for task_input in statement.inputs)
            if statement.backfill is not None:
                yield statement.backfill
            texts = [i.rows for i in statement.inputs if i.rows is not None]
            texts += [text for part in statement.body for text in st.texts_of(part)]
            aliases = {fold(i.alias) for i in statement.inputs if i.alias}
            for ref in (ref for text in texts for ref in text.relations):
                if len(ref.parts) > 1 or fold(ref.parts[0]) not in aliases:
                    yield ref


def _attach(contents: _Definitions, comment: st.CommentOn, schema: str) -> None:
    name = qualify(comment.target, schema)
    owner = contents.owners.get(name)
    if owner is None:
        kind = comment.kind.value if comment.kind else "relation"
        hint = "COMMENT ON in a folder is for objects that the folder defines."
        raise unknown_relation(name, hint, comment.target.span, kind=kind)
    definition = contents.definitions[owner]
    contents.definitions[owner] = replace(definition, comments=(*definition.comments, comment))


def not_a_definition(statement: st.Statement) -> CtsqlError:
    """NOT_A_DEFINITION; the caller raises it."""
    words = statement.span.text.split()
    verb = words[0].upper()
    hint = "Keep it in another folder, and run it as a script: ctsql FILE"
    if verb in _ROWS:
        hint = "Rows are not definitions. " + hint
    elif verb in ("DROP", "UNDROP"):
        hint = "Leave the definition out instead, and type: ctsql apply --prune"
    elif verb == "CREATE":
        hint = "A replacement is removed when it is applied. " + hint
    elif verb == "ALTER":
        hint = "Change the CREATE statement instead."
    what = verb if verb in _ROWS else " ".join(words[:2]).upper().rstrip(";")
    return error("NOT_A_DEFINITION", span=statement.span, what=what, taken=TAKEN, hint=hint)


def _in_order(definitions: Sequence[FileDefinition]) -> list[FileDefinition]:
    """Definitions, each after what it reads, else in order of text; RECURSIVE_DEFINITION."""
    makers = {name: definition for definition in definitions for name in definition.names}
    graph = {
        definition.name: [makers[n].name for n in definition.reads if n in makers]
        for definition in definitions
    }
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as problem:
        circle: list[Name] = problem.args[1]
        steps = [makers[name] for name in reversed(circle)]
        first = steps[0]
        steps_text = [f'"{s.name}" ({s.span.place()})' for s in steps]
        detail = f"{' reads '.join(steps_text)}."
        raise error(
            "RECURSIVE_DEFINITION", span=first.span, name=str(first.name), detail=detail
        ) from None
    return [makers[name] for name in order]
