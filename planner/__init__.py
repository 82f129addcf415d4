"""Text to statements to a frozen plan to PySpark plans. Pure, but for the DataFrames it builds."""
