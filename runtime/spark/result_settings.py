"""The settings of Spark that change a query's rows. Pure.

A definition means the same in every process. So the engine's sessions keep these at Spark's
defaults, whatever ``spark-defaults.conf`` or a caller's session has. SET does not change them
(docs/decisions/0145-settings-that-change-results.md).

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
"""Prefixes of the names of these settings."""
_NAMES = frozenset({
    "spark.databricks.delta.schema.autoMerge.enabled",  # an INSERT would add columns
    "spark.databricks.delta.stats.collect",  # deletion vectors need the number of a file's rows
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
    """Whether a setting, in any case, may change a query's rows or make it fail.

    >>> changes_results("spark.sql.mapKeyDedupPolicy"), changes_results("SPARK.SQL.ansi.enabled")
    (True, True)
    >>> changes_results("spark.sql.shuffle.partitions")
    False
    """
    lower_name = name.lower()
    return lower_name in _FOLDED or lower_name.startswith(_FOLDED_KINDS)
