"""Binding: resolves each name of a statement to an object, a column and a type.

Pure, except that types of a query come from Spark's analysis (:class:`Analyst`). Stored definitions
are bound to the objects that their names meant at their creation (``Item.reads``).
"""
