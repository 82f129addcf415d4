"""The log of a Delta table, read without a JVM."""
