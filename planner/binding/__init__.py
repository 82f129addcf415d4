"""Binding: resolves each name of a statement to an object, a column and a type.

Pure but for the types of a query, which Spark's analysis gives through the :class:`Analyst`
protocol. Stored definitions are bound with the objects that their names meant at their creation
(``Item.reads``), whatever has these names now.
"""
