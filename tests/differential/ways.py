"""How a value travels through a view: the queries of the battery, for any type.

``{c}`` is the column under test, ``{a}`` and ``{b}`` two values of its type. The tables ``t`` and
``u`` have the same columns: ``id`` (not unique), ``g`` and one for each type.
"""

from dataclasses import dataclass

from ctsql.runtime.spark.versions import at_least
from tests.differential.kinds import ADD, ARRAY, EQUAL, GROUP, SORT, Kind, column


@dataclass(frozen=True, slots=True)
class Way:
    """One query.

    Attributes:
        needs: what a type must be able to do. zeros: its result may hold either of 0.0 and -0.0,
            as rows come. is_chained: it reads a view over ``t`` instead of it.
    """

    name: str
    sql: str
    needs: frozenset[str] = frozenset()
    zeros: bool = False
    is_chained: bool = False

    def fits(self, kind: Kind) -> bool:
        """Does Spark run it for a type?"""
        return self.needs <= kind.can

    def query(self, kind: Kind, table: str = "t") -> str:
        """The query for a type."""
        return self.sql.format(
            c=column(kind), a=kind.literals[0], b=kind.literals[1 % len(kind.literals)], t=table
        )


def _way(name: str, needs: str, sql: str, **more: object) -> Way:
    return Way(name, sql, frozenset(needs.split()), **more)  # type: ignore[arg-type]


_ALL = (
    # values that are only carried, or looked at one by one
    _way("carried", "", "SELECT id, {c} FROM {t}"),
    _way("renamed", "", "SELECT {c} AS x, {c} AS y, g FROM {t} WHERE id > 2"),
    _way("null test", "", "SELECT id, {c} IS NULL AS x FROM {t} WHERE {c} IS NOT NULL OR g = 1"),
    _way("nested in new values", "",
         "SELECT id, array({c}) AS x, named_struct('a', {c}, 'b', g) AS y, map(1, {c}) AS z "
         "FROM {t}"),
    _way("chosen", "", "SELECT id, CASE WHEN g = 0 THEN {c} END AS x, coalesce({c}, {a}) AS y "
                       "FROM {t}"),
    _way("compared with values", EQUAL,
         "SELECT id, {c} FROM {t} WHERE {c} = {a} OR NOT ({c} <> {b}) OR {c} <=> NULL"),
    _way("in a list", EQUAL, "SELECT id FROM {t} WHERE {c} IN ({a}, {b})"),
    _way("not in a list", EQUAL, "SELECT id, {c} FROM {t} WHERE {c} NOT IN ({a}, {b})"),
    _way("compared as a value", EQUAL, "SELECT id, {c} = {a} AS x, {c} <=> {b} AS y FROM {t}"),
    _way("ordered by comparison", SORT, "SELECT id, {c}, {c} >= {a} AS x FROM {t} WHERE {c} < {b}"),
    _way("between", SORT, "SELECT id FROM {t} WHERE {c} BETWEEN least({a}, {b}) AND greatest("
                          "{a}, {b})"),
    # joins
    _way("join", EQUAL, "SELECT x.id, y.id AS id2, x.{c}, y.{c} AS d FROM {t} x JOIN u y "
                        "ON x.{c} = y.{c}"),
    _way("null-safe join", EQUAL, "SELECT x.id, y.id AS id2, y.{c} FROM {t} x JOIN u y "
                                  "ON x.{c} <=> y.{c} AND x.g = y.g"),
    _way("left join", EQUAL, "SELECT x.id, x.{c}, y.{c} AS d, y.id AS id2 FROM {t} x "
                             "LEFT JOIN u y ON x.{c} = y.{c}"),
    _way("full join", EQUAL, "SELECT x.id, x.{c}, y.{c} AS d, y.id AS id2 FROM {t} x "
                             "FULL JOIN u y ON x.{c} = y.{c} AND x.g = y.g"),
    _way("carried by a full join", "", "SELECT x.{c}, y.{c} AS d FROM {t} x FULL JOIN u y "
                                       "ON x.id = y.id"),
    _way("self-join", EQUAL, "SELECT x.id, y.id AS id2 FROM {t} x JOIN {t} y ON x.{c} = y.{c} "
                             "AND x.id < y.id"),
    _way("semi join", EQUAL, "SELECT id, {c} FROM {t} LEFT SEMI JOIN u USING ({c})"),
    _way("using", EQUAL, "SELECT * FROM (SELECT id, {c} FROM {t}) FULL JOIN (SELECT g, {c} FROM u) "
                         "USING ({c})", zeros=True),
    # subqueries
    _way("in a query", EQUAL, "SELECT id, {c} FROM {t} WHERE {c} IN (SELECT {c} FROM u)"),
    _way("not in a query", EQUAL, "SELECT id, {c} FROM {t} WHERE {c} NOT IN "
                                  "(SELECT {c} FROM u WHERE {c} IS NOT NULL AND g = 0)"),
    _way("exists", EQUAL, "SELECT id FROM {t} x WHERE EXISTS (SELECT 1 FROM u y WHERE "
                          "y.{c} = x.{c} AND y.g >= x.g)"),
    _way("not exists", EQUAL, "SELECT id, {c} FROM {t} x WHERE NOT EXISTS (SELECT 1 FROM u y "
                              "WHERE y.{c} <=> x.{c})"),
    _way("scalar", SORT, "SELECT id, {c} FROM {t} WHERE {c} >= (SELECT min({c}) FROM u)"),
    _way("correlated", f"{SORT}", "SELECT x.id, (SELECT max(y.{c}) FROM u y WHERE y.g = x.g) AS m "
                                  "FROM {t} x", zeros=True),
    _way("correlated by it", EQUAL, "SELECT x.id, (SELECT count(*) FROM u y WHERE y.{c} = x.{c}) "
                                    "AS n FROM {t} x"),
    # groups
    _way("group key", GROUP, "SELECT {c}, count(*) AS n FROM {t} GROUP BY {c}"),
    _way("group keys", GROUP, "SELECT g, {c}, count(*) AS n, max(id) AS m FROM {t} "
                              "GROUP BY g, {c}"),
    _way("key of a state", GROUP, "SELECT {c}, avg(id) AS a, sum(g) AS s FROM {t} GROUP BY {c} "
                                  "HAVING count(*) > 1"),
    _way("hidden key of a state", GROUP, "SELECT count(*) AS n, sum(id) AS s FROM {t} "
                                         "GROUP BY {c}"),
    _way("counted", GROUP, "SELECT g, count({c}) AS n, count(DISTINCT {c}) AS d FROM {t} "
                           "GROUP BY g"),
    _way("counted by a state", "", "SELECT count({c}) AS n, count(*) AS m FROM {t}"),
    _way("least and greatest", SORT, "SELECT g, min({c}) AS x, max({c}) AS y, count({c}) AS n "
                                     "FROM {t} GROUP BY g", zeros=True),
    _way("greatest of all", SORT, "SELECT max({c}) AS y, min({c}) AS x FROM {t}", zeros=True),
    _way("added", ADD, "SELECT g, count(*) AS n, count({c}) AS m, sum({c}) AS s FROM {t} "
                       "GROUP BY g", zeros=True),
    _way("added by a state", ADD, "SELECT sum({c}) AS s, avg({c}) AS a FROM {t}", zeros=True),
    _way("mean of a group", ADD, "SELECT g, avg({c}) AS a, sum({c}) AS s FROM {t} GROUP BY g "
                                 "HAVING count(*) > 0", zeros=True),
    _way("sorted list", SORT, "SELECT g, sort_array(collect_list({c})) AS l FROM {t} GROUP BY g",
         zeros=True),
    _way("greatest by", SORT, "SELECT g, max_by({c}, struct({c}, id)) AS m FROM {t} GROUP BY g",
         zeros=True),
    _way("carried by greatest", "", "SELECT g, max(id) AS m, count_if({c} IS NULL) AS n FROM {t} "
                                    "GROUP BY g"),
    _way("distinct", SORT, "SELECT DISTINCT {c} FROM {t}"),
    _way("distinct pairs", SORT, "SELECT DISTINCT g, {c} FROM {t} WHERE id > 1"),
    _way("rollup", GROUP, "SELECT g, {c}, count(*) AS n, grouping_id() AS i FROM {t} "
                          "GROUP BY ROLLUP (g, {c})"),
    _way("cube", GROUP, "SELECT {c}, g, count({c}) AS n FROM {t} GROUP BY CUBE ({c}, g)"),
    _way("grouping sets", GROUP, "SELECT {c}, g, sum(id) AS s, grouping({c}) AS i FROM {t} "
                                 "GROUP BY GROUPING SETS (({c}), (g, {c}), ())"),
    _way("groups of groups", GROUP, "SELECT n, count(*) AS m FROM (SELECT {c}, count(*) AS n "
                                    "FROM {t} GROUP BY {c}) GROUP BY n"),
    # set operations
    _way("union all", "", "SELECT id, {c} FROM {t} WHERE g < 2 UNION ALL SELECT g, {c} FROM u"),
    _way("union", SORT, "SELECT g, {c} FROM {t} UNION SELECT g, {c} FROM u"),
    _way("except", SORT, "SELECT {c} FROM {t} EXCEPT SELECT {c} FROM u WHERE g = 0", zeros=True),
    _way("except all", SORT, "SELECT g, {c} FROM {t} EXCEPT ALL SELECT g, {c} FROM u", zeros=True),
    _way("intersect", SORT, "SELECT {c} FROM {t} INTERSECT SELECT {c} FROM u", zeros=True),
    _way("intersect all", SORT, "SELECT {c} FROM {t} INTERSECT ALL SELECT {c} FROM u", zeros=True),
    # order and windows
    _way("first rows", SORT, "SELECT {c}, id, g FROM {t} ORDER BY {c} DESC NULLS LAST, id, g "
                             "LIMIT 5"),
    _way("first rows by others", "", "SELECT id, {c} FROM {t} ORDER BY 1 - (id), 'a' LIMIT 6",
         zeros=True),  # of rows that differ in the sign of a zero either is one of the six
    _way("first groups", SORT, "SELECT {c}, count(*) AS n FROM {t} GROUP BY {c} "
                               "ORDER BY n DESC, {c} LIMIT 4"),
    _way("partition of a window", SORT,
         "SELECT id, {c}, rank() OVER (PARTITION BY {c} ORDER BY id) AS r, "
         "count(*) OVER (PARTITION BY {c}) AS n FROM {t}"),
    _way("order of a window", SORT,
         "SELECT id, rank() OVER (PARTITION BY g ORDER BY {c}) AS r, "
         "dense_rank() OVER (PARTITION BY g ORDER BY {c} DESC) AS d FROM {t}"),
    _way("value of a window", SORT,
         "SELECT id, max({c}) OVER (PARTITION BY g) AS m, "
         "lag({c}) OVER (PARTITION BY g ORDER BY id, {c}) AS l FROM {t}", zeros=True),
    _way("value of a window by others", "",
         "SELECT id, last_value({c}) OVER (PARTITION BY id) IS NULL AS l, {c} FROM {t} "
         "QUALIFY count({c}) OVER (PARTITION BY g) > 1"),
    _way("qualified", SORT, "SELECT id, g, {c} FROM {t} QUALIFY rank() OVER (PARTITION BY {c} "
                            "ORDER BY id DESC) = 1"),
    # rows of values
    _way("exploded", ARRAY, "SELECT id, x FROM {t} LATERAL VIEW explode({c}) e AS x"),
    _way("exploded outer", ARRAY, "SELECT id, p, x FROM {t} LATERAL VIEW OUTER posexplode({c}) e "
                                  "AS p, x"),
    _way("exploded with others", "", "SELECT id, x FROM {t} LATERAL VIEW explode(array({c}, {c})) "
                                     "e AS x"),
    _way("lateral", EQUAL, "SELECT x.id, y.n FROM {t} x, LATERAL (SELECT count(*) AS n, "
                           "max(z.id) AS m FROM u z WHERE z.{c} = x.{c}) y"),
    _way("lateral values", "", "SELECT x.id, y.d FROM {t} x, LATERAL (SELECT x.{c} AS d WHERE "
                               "x.g > 0) y"),
    _way("pivot", SORT, "SELECT * FROM (SELECT g, id, {c} FROM {t}) PIVOT (count(id) AS n "
                        "FOR g IN (0, 1))"),
    _way("pivoted", EQUAL, "SELECT * FROM (SELECT g, id, {c} FROM {t}) PIVOT (sum(id) FOR {c} IN "
                           "({a} AS a, {b} AS b))"),
    # views over views
    _way("chained groups", GROUP, "SELECT {c}, count(*) AS n FROM {t} GROUP BY {c}",
         is_chained=True),
    _way("chained join", EQUAL, "SELECT x.id, x.{c} FROM {t} x JOIN u y ON x.{c} = y.{c}",
         is_chained=True),
)  # fmt: skip
# Before, Spark has no QUALIFY.
WAYS = tuple(way for way in _ALL if at_least(4, 2) or "QUALIFY" not in way.sql)
BY_NAME = {way.name: way for way in WAYS}
