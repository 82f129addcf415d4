"""The stored catalog, the location of a warehouse, and the users' files."""
