"""Every output format, to the character."""

import csv
import datetime
import io
import json
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import Row as PySparkRow

from ctsql.catalog.errors import CtsqlError
from ctsql.rendering.show import Format, unique_names, write_result
from ctsql.results.result import LiveBatch, Result
from ctsql.results.subscription import Batch
from ctsql.results.values import inner_types, json_of, of_python, text_of


def sample() -> Result:
    rows = [
        (1, "a,b", Decimal("1.50"), None),
        (22, 'say "hi"', Decimal("-0.10"), [1, None]),
        (None, "", None, []),
        (3, "日本\n語", Decimal("12.00"), [2]),
    ]
    types = ["int", "string", "decimal(4,2)", "array<int>"]
    return Result.of_rows(["k", "name", "d", "list"], types, rows)


def written(result: Result, format: Format, **options: object) -> str:
    out = io.StringIO()
    write_result(result, format, out, **options)  # type: ignore[arg-type]
    return out.getvalue()


def test_a_plain_table_aligns_numbers_and_wide_letters() -> None:
    """Widths are cells; a line break in a value is written as an escape."""
    assert written(sample(), Format.TABLE) == (
        "    k | name     |     d | list\n"
        "------+----------+-------+-----------\n"
        "    1 | a,b      |  1.50 | NULL\n"
        '   22 | say "hi" | -0.10 | [1, null]\n'
        " NULL |          |  NULL | []\n"
        "    3 | 日本\\n語 | 12.00 | [2]\n"
        "(4 rows)\n"
    )


class Batches:
    """An unbounded result's batches, each of some rows."""

    def __init__(self, *batches: list[tuple[object, ...]]) -> None:
        self._batches = batches

    def batches(self) -> Iterator[LiveBatch]:
        for rows in self._batches:
            yield Batch(0, lambda: pytest.fail("the rows are in memory"), rows)

    def stop(self) -> None:
        pass


def test_an_unbounded_table_has_fixed_widths() -> None:
    """Its rows are written as they come; a wider value moves what is behind it."""
    live = Batches(
        [(7, 1, "a", 1, "b")],
        [(8, 1, "a long name, too wide", 2, "b")],
        [(9, -1, "c", 3, "d" * 20)],
    )
    types = ["bigint", "bigint", "string", "int", "string"]
    result = Result.of_live(["t", "diff", "name", "n", "note"], types, live)
    assert written(result, Format.TABLE) == (
        "             t | diff | name         |            n | note\n"
        "---------------+------+--------------+--------------+--------------\n"
        "             7 |    1 | a            |            1 | b\n"
        "             8 |    1 | a long name, too wide |            2 | b\n"
        "             9 |   -1 | c                     |            3 | dddddddddddddddddddd\n"
    )


def test_csv_tells_null_from_empty_and_quotes_what_must_be() -> None:
    """NULL is an empty field, an empty string is quoted; a CSV reader gets the values back."""
    text = written(sample(), Format.CSV)
    assert text == (
        "k,name,d,list\n"
        '1,"a,b",1.50,\n'
        '22,"say ""hi""",-0.10,"[1, null]"\n'
        ',"",,[]\n'
        '3,"日本\n語",12.00,[2]\n'
    )
    assert next(iter(list(csv.reader(io.StringIO(text, newline="")))[4:]))[1] == "日本\n語"


def test_json_is_one_array_and_jsonl_one_object_a_line() -> None:
    """Both hold the same rows; decimals keep their scale in the text."""
    array = written(sample(), Format.JSON)
    assert array.startswith('[\n  {"k": 1, "name": "a,b", "d": 1.50, "list": null},\n')
    lines = written(sample(), Format.JSONL).splitlines()
    assert [json.loads(line) for line in lines] == json.loads(array)
    assert written(Result.of_rows(["k"], ["int"], []), Format.JSON) == "[]\n"


def test_expanded_has_a_line_for_each_value() -> None:
    """One block a row."""
    result = Result.of_rows(["k", "name"], ["int", "string"], [(1, "a")])
    assert written(result, Format.TABLE, expanded=True) == (
        "-[ row 1 ]-\nk    | 1\nname | a\n(1 row)\n"
    )


def test_a_limited_table_says_that_there_is_more() -> None:
    """No row is left out in silence."""
    result = Result.of_rows(["n"], ["int"], [(n,) for n in range(5)])
    text = written(result, Format.TABLE, limit=2)
    assert text.endswith("(the first 2 rows; there are more: \\set limit 0 shows all)\n")
    assert text.count("\n") == 5
    whole = Result.of_rows(["n"], ["int"], [(0,), (1,)])
    assert written(whole, Format.TABLE, limit=2).endswith("(2 rows)\n")


def test_a_table_that_does_not_fit_a_terminal_is_shown_one_line_a_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No column is left out. A single column is a table at any width."""

    def shown(columns: int, width: int) -> str:
        names = [f"column{n}" for n in range(columns)]
        result = Result.of_rows(names, ["int"] * columns, [tuple(range(columns))])
        monkeypatch.setenv("COLUMNS", str(width))
        return written(result, Format.TABLE, terminal=True)

    assert shown(2, 19) == " column0 | column1\n---------+---------\n       0 |       1\n(1 row)\n"
    assert shown(2, 18) == "-[ row 1 ]-\ncolumn0 | 0\ncolumn1 | 1\n(1 row)\n"
    assert shown(1, 5) == " column0\n---------\n       0\n(1 row)\n"


def test_a_statement_is_shown_as_it_can_be_copied() -> None:
    """SHOW CREATE and EXPLAIN on a terminal: no box, line ends as they are."""
    result = Result.of_rows(["name", "text"], ["string"] * 2, [("t", "CREATE\n\tTABLE t\x1b")])
    result.text_end = ";"
    text = written(result, Format.TABLE, terminal=True)
    assert text == "CREATE\n    TABLE t\\u{1b};\n"
    result.text_end = None


def test_values_cannot_steer_the_terminal() -> None:
    """An escape sequence in data is shown, not obeyed."""
    for terminal in (True, False):
        result = Result.of_rows(["\x1b[31m"], ["string"], [("\x1b]0;owned\x07",)])
        text = written(result, Format.TABLE, terminal=terminal)
        assert "\x1b]0" not in text
        assert "\\u{1b}]0;owned\\u{7}" in text


def test_arrow_writes_a_stream_that_reads_back(tmp_path: Path) -> None:
    """The stream holds the same rows and the types."""
    path = tmp_path / "rows.arrow"
    with path.open("w", encoding="utf-8") as out:
        write_result(Result.of_rows(["k"], ["bigint"], [(1,), (None,)]), Format.ARROW, out)
    table = pa.ipc.open_stream(path.read_bytes()).read_all()
    assert table.to_pydict() == {"k": [1, None]}
    assert table.schema.field("k").type == pa.int64()


def test_arrow_is_refused_without_a_binary_stream() -> None:
    """Bytes are not put on a terminal."""
    with pytest.raises(CtsqlError, match="INVALID_USAGE"):
        written(sample(), Format.ARROW)


UTC = datetime.UTC


@pytest.mark.parametrize(
    ("value", "kind", "text", "as_json"),
    [
        (True, "boolean", "true", "true"),
        (2**70, "decimal(38,0)", str(2**70), str(2**70)),
        (Decimal("1E+3"), "decimal(4,0)", "1000", "1000"),
        (Decimal("0.00000001"), "decimal(9,8)", "0.00000001", "0.00000001"),
        (math.nan, "double", "NaN", '"NaN"'),
        (-math.inf, "double", "-Infinity", '"-Infinity"'),
        (1.0, "double", "1.0", "1.0"),
        (0.10000000149011612, "float", "0.1", "0.1"),
        (0.10000000149011612, "double", "0.10000000149011612", "0.10000000149011612"),
        (3.4028234663852886e38, "float", "3.4028235e+38", "3.4028235e+38"),
        ({"a": 0.30000001192092896}, "map<string,float>", '{"a": 0.3}', '{"a": 0.3}'),
        (b"\x00\xff", "binary", "00FF", '"00FF"'),
        (datetime.date(2024, 2, 29), "date", "2024-02-29", '"2024-02-29"'),
        (
            datetime.datetime(2024, 1, 2, 3, 4, 5, 6),
            "timestamp_ntz",
            "2024-01-02 03:04:05.000006",
            '"2024-01-02T03:04:05.000006"',
        ),
        (datetime.timedelta(days=1, seconds=3661), "", "P1DT1H1M1S", '"P1DT1H1M1S"'),
        (datetime.timedelta(microseconds=-1500), "", "-PT0.0015S", '"-PT0.0015S"'),
        (datetime.timedelta(0), "", "PT0S", '"PT0S"'),
        ({1: math.inf}, "map<int,double>", '{"1": "Infinity"}', '{"1": "Infinity"}'),
        ([b"\x01", None], "array<binary>", '["01", null]', '["01", null]'),
        ("é\n", "string", "é\n", '"é\\n"'),
    ],
)
def test_a_value_is_written_exactly(value: object, kind: str, text: str, as_json: str) -> None:
    """As text and as JSON."""
    assert text_of(value, kind) == text
    assert json_of(value, kind) == as_json


def test_a_timestamp_is_an_instant_with_its_offset() -> None:
    """Read back, it is the same instant."""
    instant = datetime.datetime(2024, 7, 1, 12, 0).astimezone(UTC)
    shown = text_of(instant, "timestamp")
    assert datetime.datetime.fromisoformat(shown) == instant
    nested = json.loads(json_of([datetime.datetime(2024, 7, 1, 12, 0)], "array<timestamp>"))
    assert datetime.datetime.fromisoformat(nested[0]) == instant


def test_inner_types_are_split_at_their_own_depth() -> None:
    """Commas of decimals and of inner structs split nothing."""
    assert inner_types("struct<a:decimal(4,2),b:struct<c:int,d:date>>") == [
        "decimal(4,2)",
        "struct<c:int,d:date>",
    ]
    assert inner_types("int") == []
    assert inner_types("struct<`a,b`:int,`t:``<`:map<string,date>,c:date>") == [
        "int",
        "map<string,date>",
        "date",
    ]


def test_columns_of_one_name_are_told_apart() -> None:
    """Also when the new name is taken."""
    assert unique_names(["a", "a", "a_2", "a"]) == ["a", "a_2", "a_2_2", "a_3"]


def test_maps_with_keys_that_no_dict_has() -> None:
    """They are fetched as entries, and become dicts of tuples, bytes and rows; JSON has texts."""
    entries = [([1, None], 2)]
    found = of_python(entries, "map<array<int>,int>")
    assert found == {(1, None): 2}
    assert json_of(found, "map<array<int>,int>") == '{"[1, null]": 2}'
    assert of_python([(bytearray(b"\xff"), None)], "map<binary,int>") == {b"\xff": None}
    key = PySparkRow(a=[1])
    found = of_python(
        [[(key, [([2], 3)])], None], "array<map<struct<a:array<int>>,map<array<int>,int>>>"
    )
    assert found == [{((1,),): {(2,): 3}}, None]
    assert next(iter(found[0])).a == (1,)
    assert text_of(found[0], "map<struct<a:array<int>>,map<array<int>,int>>") == (
        '{"{\\"a\\": [1]}": {"[2]": 3}}'
    )
