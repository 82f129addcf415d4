"""``ctsql test``: runs the TEST statements of a folder, each in a new warehouse.

:mod:`ctsql.planner.testing` decides what a test needs; here it is made, run and compared, by the
same code that runs any statement.

With ``-p ctsql.testing`` pytest collects the tests, too.
"""

pytest_plugins = ["ctsql.testing.plugin"]
