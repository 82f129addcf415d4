"""What a task's body is known to do, told from its plan: what it reads, when it is due. Pure.

Running it over few rows, over several Ts at once, by Spark, and explaining it go by these readings.
"""
