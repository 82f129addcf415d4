"""SQL text -> statements -> a frozen logical plan -> DataFrames. Pure, but for the DataFrames."""
