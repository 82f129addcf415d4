"""What a connection does with a statement: its variables, its settings, its handler."""
