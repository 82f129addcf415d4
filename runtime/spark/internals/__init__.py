"""The only package that calls private parts of Spark and PySpark; Delta's are in ``runtime.delta``.

Private are PySpark's ``_jvm``, ``_jdf``, ``_jsc``, ``_jsparkSession`` and their like, and
undocumented parts of Spark: ``catalyst``, ``execution``, the scheduler. Each function and class
states the missing public API, and what is lost without it: ``Needed`` (ctsql cannot work, or would
be wrong), ``A fast path`` (the same, slower) or ``Optional`` (a figure or a hint is missing). The
last two kinds have an alternative by ``or_else``, here or in their callers. All work on Spark 4.0
to 4.2 unless they name another range.

Of ``runtime.spark`` it imports only ``versions`` and ``missing``. Callers translate errors.
"""
