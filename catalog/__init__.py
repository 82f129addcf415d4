"""What exists: names, columns, objects and their definitions. Imports nothing of ours."""
