"""Analyses a task's body: the inputs and references it reads, and when it is due. Pure.

Running it over few rows, over several Ts at once, by Spark, and explaining it go by these readings.
"""
