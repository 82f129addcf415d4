"""The only package that calls private parts of Delta Lake; Spark's are in ``runtime.spark``.

Private is all of ``org.apache.spark.sql.delta``, but the settings and the catalog that Delta's
documentation names. Delta's public APIs are ``DeltaTable`` and SQL, which commit whole statements,
and Delta Kernel, which writes no deletion vectors and does not use Spark's writers. Each class here
says which public API does not exist, and what happens without it, as
:mod:`ctsql.runtime.spark.internals` does. All work with Delta 4.4 on Spark 4.0 to 4.2.
"""
