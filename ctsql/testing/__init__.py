"""``ctsql test``: runs the TEST statements of a folder, each in a new warehouse."""
