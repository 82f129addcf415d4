"""Desired minus stored, as multisets, on the driver: for few rows.

Equality is exact and blind to nothing but a NaN's payload: NULL equals NULL, NaN equals NaN, 0.0
differs from -0.0, maps are equal whatever the order of their entries.
"""

import math
from collections.abc import Hashable, Sequence

import pyarrow as pa
import pyarrow.compute as pc


def cancel(
    desired: Sequence[Hashable], stored_rows: Sequence[Hashable]
) -> tuple[list[int], list[int]]:
    """Take equal rows off both lists, one for one; what is left of each, by place in it.

    >>> cancel(["a", "a", "b"], ["a", "c"])
    ([1, 2], [1])
    """
    waiting: dict[Hashable, list[int]] = {}
    for i, row in enumerate(stored_rows):
        waiting.setdefault(row, []).append(i)
    for places in waiting.values():
        places.reverse()  # the first stored copy is kept first
    inserts = []
    for i, row in enumerate(desired):
        places = waiting.get(row, [])
        if places:
            places.pop()
        else:
            inserts.append(i)
    return inserts, sorted(i for places in waiting.values() for i in places)


def add_up(signed_rows: pa.Table, diff: str) -> pa.Table:
    """Each row once with its ``diff``, the last column, added up, where that is not 0.

    Args:
        signed_rows: columns without parts; fractions are compared by their bits.
    """
    names = signed_rows.schema.names
    # Arrow reads a name that begins with a dot or a bracket as a path: numbers stand in.
    numbers = [str(n) for n in range(len(names) - 1)]
    bits = [_bits(column) for column in signed_rows.columns[:-1]]
    groups = pa.table([*bits, signed_rows.column(diff)], [*numbers, diff]).group_by(numbers)
    sums = groups.aggregate([(diff, "sum")]).rename_columns(names)
    sums = sums.filter(pc.not_equal(sums.column(diff), 0))
    pairs = zip(sums.columns, signed_rows.schema.types, strict=True)
    columns = [c if c.type == kind else c.combine_chunks().view(kind) for c, kind in pairs]
    return pa.table(columns, signed_rows.schema)


def distinct(rows: pa.Table) -> pa.Table:
    """Each row once; the columns are neither fractions nor have parts.

    >>> distinct(pa.table({"a": [1, 2, 1]})).column("a").to_pylist()
    [1, 2]
    """
    numbers = [str(n) for n in range(rows.num_columns)]  # as in add_up
    groups = rows.rename_columns(numbers).group_by(numbers).aggregate([])
    return pa.table(groups.columns, rows.schema)


def _bits(column: pa.ChunkedArray) -> pa.Array:
    """Fractions as whole numbers that are equal exactly when they are; other columns as such."""
    values = column.combine_chunks()
    if not pa.types.is_floating(values.type):
        return values
    same = pc.if_else(pc.is_nan(values), pa.scalar(math.nan, values.type), values)
    return same.view(f"int{values.type.bit_width}")


def keys(rows: pa.Table) -> list[Hashable]:
    """Each row of a table as a value that is equal exactly when the rows are."""
    columns = []
    for column, field in zip(rows.columns, rows.schema, strict=True):
        kind = _python_type(field.type)
        values = (column if kind == field.type else column.cast(kind)).to_pylist()
        is_itself = not (pa.types.is_nested(kind) or pa.types.is_floating(kind))
        columns.append(values if is_itself else [_frozen(value, kind) for value in values])
    return list(zip(*columns, strict=True)) if columns else [()] * rows.num_rows


def _python_type(kind: pa.DataType) -> pa.DataType:
    """With the same equality; Python has not all dates, and only texts in UTF-8."""
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind):
        return pa.int64()
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct(
            [kind[i].with_type(_python_type(kind[i].type)) for i in range(kind.num_fields)]
        )
    if pa.types.is_map(kind):
        item = kind.item_field.with_type(_python_type(kind.item_type))
        return pa.map_(kind.key_field.with_type(_python_type(kind.key_type)), item)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_python_type(kind.value_type)))
    return kind


def _frozen(value: object, kind: pa.DataType) -> Hashable:
    if value is None:
        return None
    if pa.types.is_floating(kind):
        assert isinstance(value, float)
        return ("NaN",) if math.isnan(value) else (value, math.copysign(1.0, value))
    if pa.types.is_struct(kind):
        assert isinstance(value, dict)
        return tuple(_frozen(value[kind[i].name], kind[i].type) for i in range(kind.num_fields))
    if pa.types.is_map(kind):
        assert isinstance(value, list)
        return frozenset((_frozen(k, kind.key_type), _frozen(v, kind.item_type)) for k, v in value)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        assert isinstance(value, list)
        return tuple(_frozen(item, kind.value_type) for item in value)
    assert isinstance(value, Hashable)
    return value
