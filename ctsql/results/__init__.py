"""Results of statements: rows and subscriptions, converted to Python, Arrow, pandas or HTML."""
