"""The options of Spark's readers and writers of files. Pure.

Spark passes over an option that it does not know, so one that is misspelt would have no effect.

Source: the classes ``CSVOptions``, ``JSONOptions``, ``ParquetOptions``, ``OrcOptions``,
``AvroOptions`` and ``FileIndexOptions`` of Spark 4.2.0, and what its readers and writers of files
have in common.
"""

from collections.abc import Iterable

from ctsql.catalog.errors import bad_option
from ctsql.catalog.names import did_you_mean
from ctsql.planner.syntax.tokens.tokenizer import Token

_TEXT = """
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
"""Options by names that Spark takes for another one, in lower case."""
KNOWN = {name.lower(): name for name in _TEXT.split()}


def is_given(name: str, options: Iterable[str]) -> bool:
    """Whether an option is among some, by any of its names; all in lower case.

    >>> is_given("sep", ["delimiter"]), is_given("sep", ["header"])
    (True, False)
    """
    return _SAME.get(name, name) in (_SAME.get(other, other) for other in options)


def check_known(option: Token) -> None:
    """Raise INVALID_OPTION for an option that no reader or writer of files has.

    One with a dot is for Hadoop or for the writer of a format, which have many.
    """
    name = option.text
    if name.lower() not in KNOWN and "." not in name:
        hint = did_you_mean(name, KNOWN.values(), otherwise="Leave it out.")
        detail = "Files have no such option; one of Hadoop's has a dot, and stands in backticks."
        raise bad_option(option.span, name, detail, value="any value here", hint=hint)
