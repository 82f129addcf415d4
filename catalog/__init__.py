"""The catalog: objects, names, columns and errors. It imports no other part of ctsql."""
