"""Columns that ctsql or Spark adds to rows while computing. No table may have such a name.

Each name is used for one thing, so rows may carry several of these columns at once. A name that
ends in an underscore is followed by a number.
"""

PREFIX = "__ct_"
"""The prefix of all of these, and of columns of change plans and temporary relations."""

OF_SPARK = ("_metadata", "_change_type", "_commit_version", "_commit_timestamp")
"""Columns that Spark gives the rows of files, and Delta those of its change feed."""

DIFF = "__ct_diff"  # how many copies of the row are inserted, or if negative deleted
TIME = "__ct_time"  # the row's T, if a relation has rows of several Ts
NUMBER = "__ct_number"  # the row's place in a list of table changes, from 0
COPY = "__ct_copy"  # the number of a copy, when a row with a diff is repeated

PART = "__ct_part"  # the number of the row's set, from 0, if several sets are computed together

FILE_COLUMN = "__ct_file"  # the full path of the row's file, as ``_metadata.file_path`` gives it
ROW_COLUMN = "__ct_row"  # the row's number in its file, from 0, deleted rows counted
ORIGIN = "__ct_origin"  # the full path of the file that the row was in before it was copied
VERSION = "__ct_version"
"""The version of the commit that wrote the row, in addition to its ``TIME``."""
NOTE = "__ct_note"  # why that commit is unknown, as a sentence
LOCATION = "__ct_location"  # file and row number of one stored row
LOCATIONS = "__ct_locations"  # the locations of the copies to delete

ACTION = "__ct_action"  # the action of a MERGE clause for the row
HELD = "__ct_held"  # the number of a row that the output held before a MERGE
PROPOSED = "__ct_proposed"  # the alias of the rows that constraints read
SOURCE = "__ct_source"  # the alias of a MERGE source without a name
BROKEN = "__ct_broken"
"""The constraints that a row breaks: bit i for the i-th constraint of its output."""
UNIQUE_ = "__ct_unique_"
"""Whether a row's key is that of no other row, for each UNIQUE by its number."""
WIDE = "__ct_wide"  # whether the row is too large for the driver

COLUMN_ = "__ct_column_"  # a column of a result, by position
VALUE_ = "__ct_value_"  # a value that a statement assigns
KEY_ = "__ct_key_"  # a column of a key
GONE_ = "__ct_gone_"  # a column of a row to delete
GROUP_ = "__ct_group_"  # a value by which equal rows are grouped
TEXT_ = "__ct_text_"  # the text of a value that Spark cannot group by itself
