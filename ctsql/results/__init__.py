"""What a statement returns: rows, subscriptions, and values as text, Arrow, pandas or HTML."""
