"""What a plan promises to those who run it: pruning, cut terms, hints, names, plain views."""

import re

import pytest

from ctsql.catalog.errors import Declined
from ctsql.catalog.schemas import Column
from ctsql.planner.ivm import (
    ChangePlan,
    ChangeTexts,
    KeyedTexts,
    Names,
    PlainView,
    StateUse,
    StepUse,
    TableUse,
    change_plan,
    name_by,
)
from ctsql.planner.ivm.algebra.nodes import VIEW, Version
from ctsql.planner.ivm.rules.context import StepRole
from tests.differential.plans_on_duckdb import planned

TABLES = {
    "t": (Column("k", "int"), Column("v", "int"), Column("unused", "string")),
    "u": (Column("k", "int"), Column("w", "int")),
    "s.x": (Column("k", "int"), Column("odd `name`", "int")),
}
NAMES = name_by(lambda use: f"{use.table.replace('.', '_')}__{use.version.value}")


def delta(sql: str, changed: list[str]) -> ChangeTexts:
    """The change of a query over ``TABLES``."""
    texts = planned(sql, TABLES).delta(changed)
    assert texts is not None
    return texts


def printed(texts: ChangeTexts | KeyedTexts | None, names: Names = NAMES) -> str:
    """All texts in Spark's SQL."""
    assert texts is not None
    return "\n".join([*(s.rows.sql(names) for s in texts.steps), texts.rows.sql(names)])


def used(texts: ChangeTexts | KeyedTexts | None) -> list[TableUse]:
    """What the texts read of tables, in the order of printing."""
    uses: list[TableUse] = []

    def table(use: TableUse) -> str:
        uses.append(use)
        return "x"

    printed(texts, name_by(table))
    return uses


def used_by_table(texts: ChangeTexts | KeyedTexts | None) -> dict[str, TableUse]:
    """The last use of each table."""
    return {use.table: use for use in used(texts)}


def test_only_columns_that_matter_are_read() -> None:
    """A column that no result depends on is in no text, so its change is none."""
    plan = planned(
        "SELECT k, n FROM (SELECT k, max(v) AS n, min(unused) AS m FROM t GROUP BY k)", TABLES
    )
    assert plan.reads == {"t": ("k", "v")}
    assert planned("SELECT count(*) FROM t", TABLES).reads == {"t": ()}
    assert planned("SELECT k FROM t WHERE EXISTS (SELECT * FROM u)", TABLES).reads["u"] == ()


def test_terms_of_unchanged_tables_are_cut() -> None:
    """With one changed table of two there is one term, and the other table is read once."""
    plan = planned("SELECT t.v, u.w FROM t JOIN u ON t.k = u.k", TABLES)
    both, one = plan.delta(["t", "u"]), plan.delta(["t"])
    assert both is not None
    assert one is not None
    assert (both.rows.sql(NAMES).count("JOIN"), one.rows.sql(NAMES).count("JOIN")) == (2, 1)
    assert "u__old" in printed(both)
    assert "u__old" not in printed(one)
    assert plan.delta([]) is None
    assert plan.delta(["elsewhere"]) is None


def test_scans_know_the_keys_that_matter() -> None:
    """The runtime can skip files by the keys of a step."""
    texts = delta("SELECT k, sum(v) AS n FROM t GROUP BY k", ["t"])
    keys = [s.name for s in texts.steps if s.role is StepRole.KEYS]
    found = {u.version: u.keys for u in used(texts)}
    assert found[Version.NEW] == found[Version.OLD] == ((keys[0], (("k", "__ct_key1"),)),)
    assert found[Version.DELTA] == ()


def test_tables_that_meet_a_change_by_another_one_know_its_keys() -> None:
    """Only what the other one has is wanted, and of that one what the change has."""
    sql = "SELECT t.v, u.w, n.w AS x FROM t, u, n WHERE t.k = u.k AND u.w = n.k"
    uses = used_by_table(planned(sql, {**TABLES, "n": TABLES["u"]}).delta(["t"]))
    ((step, pairs),) = uses["u"].keys
    assert isinstance(step, str)
    assert [mine for mine, _ in pairs] == ["k"]
    assert uses["n"].keys == ((uses["u"], (("k", "w"),)),)


@pytest.mark.parametrize(
    ("condition", "is_told"),
    [
        ("(t.k = u.k AND w = 1) OR (u.k = t.k AND (w = 2))", True),
        ("(t.k = u.k AND w BETWEEN 1 AND 2) OR t.k = u.k", True),
        ("(t.k = u.k AND w = 1) OR (v = w AND w = 2)", False),
        ("(t.k = u.k AND w = 1) OR w = 2", False),
        ("NOT (t.k = u.k AND w = 1)", False),
        ("(t.k = u.k OR t.k = u.k) IS NULL", False),
        ("CASE WHEN t.k = u.k OR t.k = u.k THEN w = 1 ELSE true END", False),
        ("(t.k = u.k) = (w = 1)", False),
        ("coalesce(t.k = u.k AND w = 1, t.k = u.k)", False),
    ],
)
def test_what_all_sides_of_or_say_is_said(condition: str, *, is_told: bool) -> None:
    """An equality that holds in each of them is one of the tables."""
    plan = planned(f"SELECT v, w FROM t, u WHERE {condition}", TABLES)
    assert bool(used_by_table(plan.delta(["t"]))["u"].keys) == is_told


def test_keys_do_not_go_through_a_column_of_another_type() -> None:
    """From '01' = 1 and 1 = '1' it does not follow that '01' = '1'."""
    tables = {
        "a": (Column("s", "string"), Column("x", "int")),
        "b": (Column("i", "int"), Column("y", "int")),
        "c": (Column("s", "string"), Column("z", "int")),
        "d": (Column("l", "bigint"), Column("w", "int")),
    }
    sql = "SELECT a.x, c.z FROM a, b, c, d WHERE a.s = b.i AND c.s = b.i AND d.l = b.i"
    uses = used_by_table(planned(sql, tables).delta(["a"]))
    for name in "cd":
        ((source, _),) = uses[name].keys
        assert source == uses["b"]
    grouped = "SELECT a.s, max(c.z) AS m FROM a, b, c WHERE a.s = b.i AND c.s = b.i GROUP BY a.s"
    uses = used_by_table(planned(grouped, tables).delta(["a"]))
    assert not any(isinstance(source, str) for source, _ in uses["c"].keys)


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT k, sum(v) AS n FROM t GROUP BY k", ["k"]),  # of the change
        ("SELECT k FROM t WHERE k IN (SELECT w FROM u)", ["__ct_1"]),  # of a step
        ("SELECT k, sum(v) AS n FROM t WHERE v > 1 GROUP BY k", None),
        ("SELECT k + 1 AS g, sum(v) AS n FROM t GROUP BY k + 1", None),
    ],
)
def test_texts_that_pick_values(sql: str, names: list[str] | None) -> None:
    """Distinct columns of a change or a step are no query for Spark; all else is one."""
    texts = delta(sql, ["t"])
    (found,) = (s.rows.picked_columns for s in texts.steps if s.role is StepRole.KEYS)
    assert (found and [list(columns) for _, columns in found.columns]) == (names and [names])
    assert found is None or found.is_distinct
    others = [s.rows.picked_columns for s in texts.steps if s.role is not StepRole.KEYS]
    assert all(p is None or not p.is_distinct for p in others)
    assert texts.rows.picked_columns is None


def test_a_change_as_it_is_is_picked() -> None:
    """The driver gives its columns the names that they have in the plan; a filter is Spark's."""
    texts = delta("SELECT t.v, u.w FROM t JOIN u ON t.k = u.k WHERE u.w > 1", ["t", "u"])
    own, filtered = (step.rows for step in texts.steps)
    assert own.picked_columns is not None
    (source, columns), *none = own.picked_columns.columns
    assert (columns, none) == (("k", "v", "__ct_diff"), [])
    assert isinstance(source, TableUse)
    assert (source.table, source.version) == ("t", Version.DELTA)
    assert own.picked_columns.names == own.names
    assert filtered.picked_columns is None


@pytest.mark.parametrize(
    ("source", "is_picked"),
    [
        ("t LEFT JOIN u ON t.k = u.k AND u.w > 1", True),
        ("u RIGHT JOIN t ON t.k = u.k", True),
        ("t LEFT JOIN u ON t.k = u.k AND t.v = u.w", False),  # by the rows of t that meet a change
        ("t LEFT JOIN u ON t.k > u.k", False),
        ("t LEFT JOIN u ON CAST(t.k AS BIGINT) = u.k", False),
        ("t FULL JOIN u ON t.k = u.k", False),
        ("t LEFT SEMI JOIN u ON t.k = u.k", False),
    ],
)
def test_keys_of_an_outer_join_need_no_join(source: str, *, is_picked: bool) -> None:
    """Each row of the side that stays is in the change, as it was and as it is."""
    sql = f"SELECT g, max(n) AS n FROM (SELECT t.k AS g, t.v AS n FROM {source}) GROUP BY g"
    texts = delta(sql, ["u"])
    roles = [step.role for step in texts.steps]
    assert (roles == [StepRole.KEYS]) == is_picked
    if is_picked:
        assert texts.steps[0].rows.picked_columns is not None


def test_large_changes_are_cut_by_filtered_tables_first() -> None:
    """The other tables are read for what is left of the change then."""
    tables = {**TABLES, "n": TABLES["u"], "m": TABLES["u"]}
    sql = "SELECT t.v, n.w FROM t, u, n WHERE t.k = u.k AND t.v = n.k AND u.w = 1"

    def keys(large: list[str]) -> dict[str, str]:
        texts = planned(sql, tables).delta(["t"], large=large)
        assert printed(texts).count(" JOIN ") == 2
        uses = used_by_table(texts)
        return {n: next((str(source) for source, _ in u.keys), "") for n, u in uses.items()}

    assert keys([]) == keys(["u"]) == {"t": "", "u": "change_1", "n": "change_1"}
    assert keys(["t"]) == {"t": "", "u": "change_1", "n": "change_2"}

    grouped = "SELECT t.k, max(t.v) AS n FROM t, u WHERE t.k = u.k AND u.w = 1 GROUP BY t.k"
    few, many = (planned(grouped, tables).rows_by_key(["t"], large=x) for x in ([], ["t"]))
    assert few is not None
    assert many is not None
    assert few.keys == many.keys
    assert len(many.steps) == len(few.steps) + 1
    assert "u__new" in many.steps[-1].rows.sql(NAMES)
    assert "t__" not in many.steps[-1].rows.sql(NAMES)


@pytest.mark.parametrize(
    ("condition", "columns"),
    [
        ("EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w > 1)", ["k"]),
        ("v > (SELECT max(u.w) FROM u WHERE t.k = u.k)", ["k"]),
        ("k IN (SELECT k FROM u GROUP BY k HAVING count(*) > 1)", ["k"]),
        ("k NOT IN (SELECT u.w FROM u WHERE u.k = t.k)", ["k"]),  # not by w: a NULL counts
        ("EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w = v)", ["w", "k"]),
        ("k > (SELECT count(*) FROM (SELECT * FROM u WHERE w > 0) WHERE k = v)", ["k"]),
        ("NOT EXISTS (SELECT 1 FROM u WHERE u.k > t.k)", []),
    ],
)
def test_subqueries_know_the_rows_around_them(condition: str, columns: list[str]) -> None:
    """What a subquery reads is told by the rows that see it."""
    plan = planned(f"SELECT k, v FROM t WHERE {condition}", TABLES)
    (inside,) = (use for use in used(plan.delta(["t"])) if use.table == "u")
    assert [mine for _, pairs in inside.keys for mine, _ in pairs] == columns


def test_keys_lead_to_columns_of_the_view() -> None:
    """The names given to the view's columns are those of the texts and of the pairs."""
    plan = change_plan("SELECT count(*), k FROM t GROUP BY k", TABLES, ["many", "key"])
    assert isinstance(plan, ChangePlan)
    texts = plan.rows_by_key(["t"])
    assert texts is not None
    ((column, key),) = texts.pairs
    assert column == "key"
    keys = next(step for step in texts.steps if step.name == texts.keys)
    assert key in keys.rows.names
    assert texts.rows.sql(NAMES).startswith("SELECT __ct_")
    assert "AS `many`" in texts.rows.sql(NAMES)


def test_a_star_that_has_lost_a_column_has_no_plan() -> None:
    """The view keeps its columns; a query that gives others is refused when it is computed."""
    names = [c.name for c in TABLES["t"]] + ["gone"]
    plan = change_plan("SELECT * FROM t", TABLES, names)
    assert isinstance(plan, Declined)
    assert plan.reason == "UNKNOWN_COLUMN"


def test_a_plain_view_is_read_in_place() -> None:
    """A view's query has names of its own."""
    view = PlainView("SELECT k AS a, w AS b FROM t WHERE w > 0", ("p", "q"), {"t": TABLES["u"]})
    plan = planned(
        "SELECT p, v FROM my_view JOIN t ON p = k", {**TABLES, "u": TABLES["u"], "my_view": view}
    )
    assert plan.columns == ("p", "v")


def test_odd_names_are_quoted() -> None:
    """Two-part names, backticks and case."""
    plan = planned("SELECT X.`ODD ``name``` FROM S.x WHERE s.X.k = 1", TABLES)
    assert "`odd ``name```" in plan.normal().sql(NAMES)


def test_expressions_keep_the_users_text() -> None:
    """Nothing of an expression is printed anew: neither literals nor functions nor casts."""
    written = "percentile_cont(0.5) WITHIN GROUP (ORDER BY v)"
    plan = planned(f"SELECT k, {written} AS p, 1L AS l, k::string AS s FROM t GROUP BY k", TABLES)
    text = plan.normal().sql(NAMES)
    for piece in ("percentile_cont(0.5) WITHIN GROUP (ORDER BY", "1L AS", ":: string"):
        assert piece in text


def test_texts_are_the_same_every_time() -> None:
    """No counter runs on between two askings."""
    plan = planned("SELECT DISTINCT t.k FROM t LEFT JOIN u ON t.k = u.k", TABLES)
    assert plan.delta(["t", "u"]) == plan.delta(["u", "t"])


def test_what_spark_cannot_plan_in_one_text_is_marked() -> None:
    """A change under a scalar subquery must be rows before Spark sees what reads it."""
    texts = delta("SELECT k, (SELECT max(w) FROM u WHERE u.k = t.k) AS m FROM t", ["t", "u"])
    marked = {s.role for s in texts.steps if s.must_be_stored}
    assert marked == {StepRole.CHANGE, StepRole.ROWS}


def test_a_text_says_what_it_reads_before_it_is_printed() -> None:
    """Whoever runs it finds all of that first; printing looks up names, and nothing else."""
    plan = planned("SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k", TABLES)
    (state,) = plan.states
    texts = plan.delta(["t"], [state.number])
    first = planned("SELECT k, v FROM t ORDER BY v, k LIMIT 3", TABLES).first_rows(["t"])
    assert texts is not None
    assert first is not None
    every = [step.rows for step in (*texts.steps, *first.steps)]
    every += [texts.rows, first.rows, plan.normal(), plan.initial_state(state.number)]
    kinds = set()
    for text in every:
        names = {use: f"relation_{i}" for i, use in enumerate(text.inputs)}
        kinds |= set(map(type, names))
        found = text.sql(names.__getitem__)
        assert all(re.search(rf"\b{name}\b", found) for name in names.values()), found
        for use in names:
            less = {other: name for other, name in names.items() if other != use}
            with pytest.raises(KeyError):
                text.sql(less.__getitem__)
    assert kinds == {TableUse, StepUse, StateUse}
    assert StateUse(VIEW) in {use for text in every for use in text.inputs}
