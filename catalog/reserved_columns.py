"""Columns that ctsql adds to rows while it computes. No table may have a column of such a name.

Each name is used for one thing, so rows may carry several of these columns at once. A name that
ends in an underscore is followed by a number.
"""

PREFIX = "__ct_"
"""With it all of these begin, and so do the columns of change plans and temporary relations."""

DIFF = "__ct_diff"
"""How many copies of the row are inserted, or if negative deleted."""
TIME = "__ct_time"
"""The T to which the row belongs, where rows of several Ts are in one relation."""
NUMBER = "__ct_number"
"""The row's place in a list of table changes, from 0."""
COPY = "__ct_copy"
"""The number of a copy, when a row with a diff is repeated."""

FILE_COLUMN = "__ct_file"
"""The full path of the row's file, as ``_metadata.file_path`` gives it."""
ROW_COLUMN = "__ct_row"
"""The row's number in its file, from 0, deleted rows counted."""
LOCATION = "__ct_location"
"""File and row number of one stored row."""
LOCATIONS = "__ct_locations"
"""The locations of the copies to delete."""

ACTION = "__ct_action"
"""What a clause of MERGE does with the row."""
HELD = "__ct_held"
"""The number of a row that the output held before a MERGE."""
SOURCE = "__ct_source"
"""The alias of a MERGE source without a name."""
WIDE = "__ct_wide"
"""Whether the row is too large for the driver."""

COLUMN_ = "__ct_column_"
"""A column of a result, by position."""
VALUE_ = "__ct_value_"
"""A value that a statement assigns."""
KEY_ = "__ct_key_"
"""A column of a key."""
GONE_ = "__ct_gone_"
"""A column of a row to delete."""
GROUP_ = "__ct_group_"
"""A value by which equal rows are grouped."""
TEXT_ = "__ct_text_"
"""The text of a value that Spark cannot group by itself."""
