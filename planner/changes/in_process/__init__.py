"""The texts of a change plan in DuckDB's SQL, where that means the same, for rows held here.

Spark takes a tenth of a second to plan a query over ten rows, and a refresh has ten queries. What
is here translates those whose meaning is the same for both, column by column with Spark's own
types; of anything else it says so, and Spark runs it (docs/decisions/0064).
"""
