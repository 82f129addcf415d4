"""Commands share a Spark that stays: ``ctsql --keep-warm`` leaves it, later commands use it.

A keeper (:mod:`ctsql.warm.keeper`) holds the JVM, and workers that have imported everything and are
connected to it. A command (:mod:`ctsql.warm.client`) gives a worker its arguments and its three
standard streams, passes signals on, and ends with the worker's exit status.
"""
