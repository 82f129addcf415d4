"""The settings of Spark by which one query gives other rows. Pure.

A definition means the same in every process and on every machine, so the engine's sessions leave
these at Spark's defaults, whatever ``spark-defaults.conf`` or a caller's session has, and SET does
not change them (docs/decisions/0145-settings-that-change-results.md).

Source: ``SQLConf`` of Spark 4.2.
"""

_KINDS = (
    "spark.sql.ansi.",
    "spark.sql.decimalOperations.",
    "spark.sql.defaultColumn.",
    "spark.sql.function.",
    "spark.sql.jsonGenerator.",
    "spark.sql.legacy.",
    "spark.sql.parser.",
)
"""How the names of these settings begin."""
_NAMES = frozenset({
    "spark.sql.avro.datetimeRebaseModeInRead",
    "spark.sql.avro.datetimeRebaseModeInWrite",
    "spark.sql.caseSensitive",
    "spark.sql.charAsVarchar",
    "spark.sql.chunkBase64String.enabled",
    "spark.sql.columnNameOfCorruptRecord",
    "spark.sql.crossJoin.enabled",
    "spark.sql.csv.parser.columnPruning.enabled",
    "spark.sql.enforceTypeCoercionBeforeUnionDeduplication.enabled",
    "spark.sql.execution.arrow.useLargeVarTypes",  # rows that come as Arrow would be misread
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreInvalidPartitionPaths",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.fromJsonForceNullableSchema",
    "spark.sql.groupByAliases",
    "spark.sql.groupByOrdinal",
    "spark.sql.icu.caseMappings.enabled",
    "spark.sql.json.enableExactStringParsing",
    "spark.sql.json.enablePartialResults",
    "spark.sql.lateralColumnAlias.enableImplicitResolution",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.optimizer.decorrelateExistsSubqueryLegacyIncorrectCountHandling.enabled",
    "spark.sql.optimizer.decorrelateSubqueryLegacyIncorrectCountHandling.enabled",
    "spark.sql.optimizeNullAwareAntiJoin",
    "spark.sql.orc.mergeSchema",
    "spark.sql.orderByOrdinal",
    "spark.sql.parquet.binaryAsString",
    "spark.sql.parquet.datetimeRebaseModeInRead",
    "spark.sql.parquet.datetimeRebaseModeInWrite",
    "spark.sql.parquet.fieldId.read.enabled",
    "spark.sql.parquet.fieldId.read.ignoreMissing",
    "spark.sql.parquet.inferTimestampNTZ.enabled",
    "spark.sql.parquet.int64AsTimestampMillis",
    "spark.sql.parquet.int96AsTimestamp",
    "spark.sql.parquet.int96RebaseModeInRead",
    "spark.sql.parquet.int96RebaseModeInWrite",
    "spark.sql.parquet.int96TimestampConversion",
    "spark.sql.parquet.mergeSchema",
    "spark.sql.preserveCharVarcharTypeInfo",
    "spark.sql.readSideCharPadding",
    "spark.sql.retainGroupColumns",
    "spark.sql.selfJoinAutoResolveAmbiguity",
    "spark.sql.session.timeZone",
    "spark.sql.sources.partitionColumnTypeInference.enabled",
    "spark.sql.sources.validatePartitionColumns",
    "spark.sql.storeAssignmentPolicy",
    "spark.sql.timestampType",
    "spark.sql.variable.substitute",
    "spark.sql.variant.allowDuplicateKeys",
    "spark.sql.variant.validateUnicodeInJsonParsing",
})  # fmt: skip
_FOLDED = frozenset(name.lower() for name in _NAMES)
_FOLDED_KINDS = tuple(kind.lower() for kind in _KINDS)


def changes_results(name: str) -> bool:
    """Whether a query may give other rows, or fail, by a setting of Spark; case does not count.

    >>> changes_results("spark.sql.mapKeyDedupPolicy"), changes_results("SPARK.SQL.ansi.enabled")
    (True, True)
    >>> changes_results("spark.sql.shuffle.partitions")
    False
    """
    lower_name = name.lower()
    return lower_name in _FOLDED or lower_name.startswith(_FOLDED_KINDS)
