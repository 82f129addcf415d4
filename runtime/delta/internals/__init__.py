"""The only package that calls private parts of Delta Lake; Spark's are in ``runtime.spark``.

Private is all of ``org.apache.spark.sql.delta`` except for documented settings and its catalog. The
public APIs are ``DeltaTable`` and SQL, which commit whole statements, and Delta Kernel, which
writes no deletion vectors and does not use Spark's writers. Each class states the missing public
API and what is lost without it. All work with Delta 4.4 on Spark 4.0 to 4.2.
"""
