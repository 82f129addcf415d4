"""Reads files in place of a relation: ``'x.csv'`` and ``read_csv('x', sep => ';')``.

Spark ignores unknown options, so a misspelt one would have no effect; here it is an error.

Source: the classes ``CSVOptions``, ``JSONOptions``, ``ParquetOptions``, ``OrcOptions``,
``AvroOptions`` and ``FileIndexOptions`` of Spark 4.2.0, and the options that its readers and
writers share.
"""

import re
from collections.abc import Iterable

from ctsql.catalog.errors import bad_option, error, invalid
from ctsql.catalog.items import FILE_FORMATS
from ctsql.catalog.locations import location_fault
from ctsql.catalog.names import did_you_mean
from ctsql.catalog.spans import Span
from ctsql.catalog.switches import read_switch
from ctsql.planner.syntax.ast import FileRef, RelationRef
from ctsql.planner.syntax.tokens import tokenizer as tk
from ctsql.planner.syntax.tokens.token_reader import TokenCursor, syntax_error
from ctsql.planner.syntax.tokens.tokenizer import Kind, Token, Tokens

READERS = {f"READ_{name.upper()}": name for name in FILE_FORMATS}
_ANY_READER = "READ_FILES"
"""Databricks' word: the format is the option ``format``, or that of the file's ending."""
_ENDINGS = {
    **{f".{name}": name for name in FILE_FORMATS},
    ".tsv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
}
_COMPRESSED = re.compile(r"\.(gz|bz2|zst|lz4|snappy|deflate)$")
_OPTIONS_TEXT = """
    allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers
    allowNumericLeadingZeros allowSingleQuotes allowUnquotedControlChars allowUnquotedFieldNames
    avroSchema avroSchemaUrl basePath charToEscapeQuoteEscaping charset codec
    columnNameOfCorruptRecord columnPruning comment compression dateFormat datetimeRebaseMode
    delimiter dropFieldIfAllNull emptyValue enableDateTimeParsingFallback
    enableStableIdentifiersForUnionType encoding enforceSchema escape escapeQuotes extension
    format header ignoreCorruptFiles ignoreExtension ignoreInvalidPartitionPaths
    ignoreLeadingWhiteSpace ignoreMissingFiles ignoreNullFields ignoreTrailingWhiteSpace
    inferSchema inferTimestamp inputBufferSize int96RebaseMode lineSep locale maxCharsPerColumn
    maxColumns maxRecordsPerFile mergeSchema mode modifiedAfter modifiedBefore multiLine nanValue
    negativeInf null nullValue overwrite pathGlobFilter positionalFieldMatching positiveInf
    preferDate prefersDecimal pretty primitivesAsString quote quoteAll recordName recordNamespace
    recursiveFieldMaxDepth recursiveFileLookup samplingRatio schema sep singleVariantColumn
    sortKeys stableIdentifierPrefixForUnionType timeFormat timeZone timestampFormat
    timestampNTZFormat unescapedQuoteHandling useUnsafeRow writeNonAsciiCharacterAsCodePoint
"""
_SAME = {"delimiter": "sep", "charset": "encoding", "codec": "compression"}
"""Other names of options, with the name that Spark uses for the same option, in lower case."""
_KNOWN = {name.lower(): name for name in _OPTIONS_TEXT.split()}


def ending_of(path: str) -> str:
    """The ending of a file's name that is a format's, in lower case; else empty.

    >>> ending_of("s3://b/day=1/*.CSV.gz"), ending_of("folder.csv/part"), ending_of("x.jsonl")
    ('.csv', '', '.jsonl')
    """
    name = _COMPRESSED.sub("", path.rstrip("/").rsplit("/", 1)[-1].lower())
    dot = name.rfind(".")
    return name[dot:] if name[max(dot, 0) :] in _ENDINGS else ""


def check_location(path: Token) -> str:
    """The location in a string; SYNTAX_ERROR: it is empty, or a file: URI with a host."""
    fault = location_fault(path.text)
    if fault is not None:
        raise syntax_error(path.span, f"the location {fault}")
    return path.text


def file_ref(
    path: Token, format_name: str | None, options: tuple[tuple[str, str], ...] = ()
) -> FileRef:
    """The file of a string, in a format, or None for that of the ending; FILE_FORMAT_UNKNOWN."""
    check_location(path)
    ending = ending_of(path.text)
    if format_name is None and not ending:
        readers = ", ".join(f"{name.lower()}('...')" for name in READERS)
        raise error(
            "FILE_FORMAT_UNKNOWN",
            span=path.span,
            message=f'the ending of "{path.text}" does not name a format',
            detail=f"Endings that do: {', '.join(_ENDINGS)}.",
            hint=f"Give the format: {readers}; in COPY: (FORMAT csv)",
        )
    if ending == ".tsv" and format_name is None and not {"sep", "delimiter"} & dict(options).keys():
        options = (*options, ("sep", "\t"))
    kind = format_name or _ENDINGS[ending]
    return FileRef(path=path.text, span=path.span, format=kind, options=options)


def read_file(tokens: Tokens, index: int) -> tuple[RelationRef, int] | None:
    """The file at an index and the index after it; None if no file begins there."""
    token = tokens[index]
    if token.kind is Kind.STRING:
        return _relation(file_ref(token, None), token.span), index + 1
    if token.upper not in (*READERS, _ANY_READER) or tk.upper_at(tokens, index + 1) != "(":
        return None
    stop = tk.closing(tokens, index + 1)
    span = Span(token.source, token.start, tokens[stop].stop)
    groups = tk.cut_at_commas(tokens[index + 2 : stop])
    path = groups[0][0] if len(groups[0]) == 1 else None
    if path is None or path.kind is not Kind.STRING:
        hint = f"Type: {token.text}('a/file')"
        raise syntax_error(span, f"{token.text}(...) takes the name of a file in quotes", hint=hint)
    options = read_options(groups[1:], span)
    format_name = READERS.get(token.upper)
    if format_name is None:
        format_name = options.pop("format", None)
    return _relation(file_ref(path, format_name, tuple(options.items())), span), stop + 1


def _relation(file: FileRef, span: Span) -> RelationRef:
    """The file as a relation; its name is the file's name without its ending."""
    name = file.path.rstrip("/").rsplit("/", 1)[-1]
    return RelationRef(parts=(name.split(".")[0] or name,), span=span, file=file)


def read_options(groups: Iterable[Tokens], place: Span, *, of_copy: bool = False) -> dict[str, str]:
    """Read the options of a file, names in lower case; ``of_copy``: spelled as in COPY.

    Raises INVALID_STATEMENT: an option is given twice. INVALID_OPTION: there is no such option.
    """
    options: dict[str, str] = {}
    for group in groups:
        if not group:
            raise syntax_error(place, "an option is missing between two commas")
        cursor = TokenCursor(group, of="option")
        token = cursor.name(f"an option, as header {'' if of_copy else '=> '}true")
        _check_known(token)
        name = token.text.lower()
        if of_copy:
            name = _COPY_SPELLINGS.get(name, name)
        if _SAME.get(name, name) in (_SAME.get(other, other) for other in options):
            raise invalid(token.span, f"option {token.text} is given twice")
        if not of_copy:
            cursor.expect("=>")
        elif not cursor.accept("="):
            cursor.accept("=>")
        if name == "format":
            options[name] = _format(cursor)
        elif of_copy and cursor.current is None:
            options[name] = "true"
        else:
            options[name] = _option_value(cursor, name)
        cursor.end()
    return options


def _format(cursor: TokenCursor) -> str:
    token = cursor.take("csv, json, parquet or orc")
    if token.text.lower() not in FILE_FORMATS:
        detail = f"The formats are: {', '.join(FILE_FORMATS)}."
        raise bad_option(token.span, "FORMAT", detail, hint=did_you_mean(token.text, FILE_FORMATS))
    return token.text.lower()


_COPY_SPELLINGS = {"null": "nullvalue"}  # names of options that PostgreSQL and Spark do not share
_SWITCHES = ("header", "overwrite")  # options that are on or off, and that ctsql reads too


def _option_value(cursor: TokenCursor, name: str) -> str:
    """Read the value of an option as Spark takes it: a text, a number, true or false."""
    if name in _SWITCHES:
        is_on = read_switch(cursor.current.text) if cursor.current else None
        if is_on is None:
            cursor.fail("true or false")
        cursor.take()
        return "true" if is_on else "false"
    sign = "-" if cursor.accept("-") else ""
    token = cursor.take("a value")
    if token.kind is Kind.NUMBER or (token.kind is Kind.STRING and not sign):
        return sign + token.text
    if token.upper in ("TRUE", "FALSE") and not sign:
        return token.text.lower()
    message = f'found "{token.span.text}", expected a text in quotes, a number, true or false'
    raise syntax_error(token.span, message)


def _check_known(option: Token) -> None:
    """Raise INVALID_OPTION for an option that Spark's readers and writers lack.

    Hadoop and the writers of formats have many options; their names have a dot.
    """
    name = option.text
    if name.lower() not in _KNOWN and "." not in name:
        hint = did_you_mean(name, _KNOWN.values(), otherwise="Leave it out.")
        detail = (
            "Files have no such option. Hadoop's options have a dot, and are written in backticks."
        )
        raise bad_option(option.span, name, detail, value="any value here", hint=hint)
