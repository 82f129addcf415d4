"""``ctsql test``: runs the TEST statements of a folder, each in a new warehouse.

With ``-p ctsql.testing`` pytest collects the tests, too.
"""

pytest_plugins = ["ctsql.testing.plugin"]
