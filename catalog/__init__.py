"""The catalog: names, columns, objects and their definitions. It imports nothing else of ctsql."""
