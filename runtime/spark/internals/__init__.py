"""The only package that calls private parts of Spark and PySpark; Delta's are in ``runtime.delta``.

Private are PySpark's ``_jvm``, ``_jdf``, ``_jsc``, ``_jsparkSession`` and their like, and what
Spark's documentation does not list: ``catalyst``, ``execution``, the scheduler. Each function and
class here says which public API does not exist, and what happens without it: ``Needed`` (ctsql
cannot work, or would be wrong), ``A fast path`` (the same, slower) or ``Optional`` (a figure or a
hint is missing). Those of the last two kinds have another way, by ``or_else``, or their callers do.
All work on Spark 4.0 to 4.2 unless they name another range.

Imports nothing else of ``runtime.spark`` but ``versions`` and ``missing``. Callers translate
errors.
"""
