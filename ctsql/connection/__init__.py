"""What a connection does with a statement: variables, settings, and the handler of each kind."""
