"""Columns with the types of Spark."""

from typing import Any, ClassVar

from dbt.adapters.base.column import Column

_STRINGS = ("string", "varchar", "char")
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


class CtsqlColumn(Column):
    """A column; a STRING has no size, so no column is ever widened."""

    TYPE_LABELS: ClassVar[dict[str, str]] = {"STRING": "STRING", "FLOAT": "DOUBLE"}

    @property
    def quoted(self) -> str:
        """The name in backticks."""
        return "`" + self.column.replace("`", "``") + "`"

    @property
    def data_type(self) -> str:
        """The type, as statements spell it."""
        return str(self.dtype)

    def is_string(self) -> bool:
        """Whether it is a text."""
        return self.dtype.lower().split("(")[0] in _STRINGS

    def is_integer(self) -> bool:
        """Whether it is a whole number."""
        return self.dtype.lower() in _INTEGERS

    def is_float(self) -> bool:
        """Whether it is a FLOAT or DOUBLE."""
        return self.dtype.lower() in ("float", "double")

    def is_numeric(self) -> bool:
        """Whether it is a DECIMAL."""
        return self.dtype.lower().startswith("decimal")

    def can_expand_to(self, other_column: Any) -> bool:
        """No: texts have no size."""
        return False

    @classmethod
    def string_type(cls, size: int) -> str:
        """The type of texts of any size."""
        return "string"
