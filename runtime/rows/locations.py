"""The columns that locate a stored row: its file, and its number there."""

FILE_COLUMN = "__ct_file"
"""The file's full path, as ``_metadata.file_path`` gives it."""
ROW_COLUMN = "__ct_row"
"""The row's number in the file, from 0, deleted rows counted."""
