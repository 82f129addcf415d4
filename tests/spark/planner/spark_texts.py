"""Texts that sqlglot, a reader in a hurry and Spark may take for different things."""

COLUMNS = (
    "k INT, i INT, s STRING, t STRING, b BOOLEAN, d DATE, m DECIMAL(10,2), a ARRAY<INT>, "
    "st STRUCT<x: INT, last: INT>, f DOUBLE"
)
ROWS = (
    "(1, 5, 'a', 'b', TRUE, DATE '2020-01-31', 1.50, array(1, 2), named_struct('x', 1, 'last', 9),"
    " 0.5D), "
    "(2, -3, 'it''s', NULL, FALSE, DATE '1999-12-31', -2.25, array(4), NULL, -0.0D), "
    "(3, NULL, '', 'a\\\\b', NULL, NULL, NULL, NULL, named_struct('x', NULL, 'last', 0), NULL), "
    "(NULL, 0, 'A', 'ab', TRUE, DATE '2024-02-29', 0, array(3), named_struct('x', 7, 'last', 7), 2)"
)

ITEMS = (
    # literals
    "1L", "1S", "1Y", "1BD", "1.5BD", "1D", "1F", "1.", ".5", "1e3", "1.e2", "-.5e-1",
    "-2147483648",
    "'a' 'b'", "'it''s'", "'a\\'b'", "'a\\\\b'", "r'a\\b'", "R\"a\\nb\"", '"dq"', '"d\'q"', "X'1F'",
    "x'00'", "DATE '2020-02-29'", "date'2020-02-29'", "TIMESTAMP '2020-01-01 00:00:00'",
    "INTERVAL 1 DAY", "d + INTERVAL '1-2' YEAR TO MONTH", "INTERVAL -1 DAY 2 HOURS", "NULL", "true",
    "'a' /* c */ 'b' -- d\n 'c'", "'\\u0041'", "'%'", "'--'", "'/*'",
    # operators
    "k + i * 2 - -1", "- -k", "-(-k)", "- k + i", "~k", "+ k", "k DIV 2", "k div i + 1", "k % 2",
    "k / 2", "m / 3", "k & 3 | 4 ^ 1", "k << 1 + 1", "k >> 1", "k >>> 1", "s || t",
    "s || NULL || t",
    "s || k", "k = i", "k == i", "k <=> i", "k <> i", "k != i", "k !> i", "k !< i", "!b",
    "! b AND b",
    "NOT b = b", "NOT NOT b", "b = b IS NULL", "b = b IN (true)", "k BETWEEN 1 AND 2 AND b",
    "k NOT BETWEEN i AND 3", "k IN (1, i)", "k NOT IN (1, NULL)", "k IN ((1))",
    "(k, i) IN ((1, 5))",
    "(k) IN (1)", "s LIKE 'a%'", "s LIKE 'a/%' ESCAPE '/'", "s NOT LIKE '_'", "s ILIKE 'a'",
    "s RLIKE '^a'", "s REGEXP 'a'", "NOT s RLIKE 'a'", "s LIKE ANY ('a', 'b')", "s LIKE ALL ('a%')",
    "s NOT LIKE ALL ('a')", "b IS TRUE", "b IS NOT FALSE", "b IS UNKNOWN", "k IS DISTINCT FROM i",
    "k IS NOT DISTINCT FROM i AND b", "k::string || 'x'", "-5::string", "-k::string", "m::INT + 1",
    "a[0]", "a[k - k]", "st.x + 1", "-st.x", "st.last", "(st).x", "array(1, 2)[1]",
    "s COLLATE UTF8_LCASE = 'a'",
    # forms
    "CASE k WHEN 1 THEN 'x' WHEN NULL THEN 'n' ELSE 'y' END", "CASE WHEN b THEN k END + 1",
    "CASE b WHEN k = 1 THEN 1 ELSE 0 END", "CASE WHEN k = 1 THEN i = 5 > b END", "IF(b, k, i)",
    "CAST(k AS STRING)", "CAST(a AS ARRAY<STRING>)", "CAST(m AS DECIMAL(5,1))",
    "TRY_CAST(s AS INT)",
    "coalesce(k, i, 0)", "nullif(k, 1)", "EXTRACT(YEAR FROM d)", "year(d)", "date(d)", "d + 1",
    "d - INTERVAL 1 DAY", "d - DATE '2020-01-01'", "substring(s FROM 1 FOR 1)", "substr(s, 1, 1)",
    "trim(BOTH 'a' FROM s)", "trim(s)", "position('a' IN s)", "overlay(s PLACING 'x' FROM 1)",
    "transform(a, x -> x + 1)", "transform(a, (x, i1) -> x + i1)", "exists(a, x -> x > 1)",
    "filter(a, x -> x > 1 AND x < 9)", "aggregate(a, 0, (acc, x) -> acc + x, acc -> acc * 2)",
    "struct(k AS p, i).p", "named_struct('p', k).p", "map('x', k)['x']", "left(s, 1)", "`k`", "v.k",
    "k -- a comment \\\n + 100\n + 1", "k /* + 1 /* nested */ */ + 2", "greatest(k < 2, i > 2)",
    "if(b, 1, 2) = 1",
    "concat_ws(',', s, t)", "(SELECT max(k) FROM w)", "k IN (SELECT k FROM w)",
    "EXISTS (SELECT 1 FROM w)",
)  # fmt: skip
QUERIES = (
    # set operations
    "SELECT k FROM v UNION SELECT k FROM w INTERSECT SELECT i FROM v",
    "SELECT k FROM v EXCEPT SELECT k FROM w UNION ALL SELECT i FROM v",
    "SELECT k FROM v UNION ALL SELECT k FROM w EXCEPT ALL SELECT i FROM v",
    "(SELECT k FROM v UNION ALL SELECT k FROM w) MINUS SELECT i FROM v",
    "SELECT k FROM v UNION ALL (SELECT k FROM w EXCEPT SELECT i FROM v)",
    "SELECT k FROM v INTERSECT SELECT k FROM w UNION ALL SELECT 9",
    "SELECT k FROM v UNION ALL SELECT k FROM w ORDER BY k LIMIT 3",
    "SELECT k FROM v UNION ALL (SELECT k FROM w ORDER BY k LIMIT 1)",
    "(SELECT k FROM v ORDER BY k LIMIT 1) UNION ALL SELECT k FROM w",
    "VALUES (1, 2), (3, 4) UNION ALL SELECT k, k FROM w",
    # joins
    "SELECT v.k, w.k, x.k FROM v, w JOIN v AS x ON w.k = x.k WHERE v.k = 1",
    "SELECT v.k, w.p, x.i FROM v JOIN w ON v.k = w.k LEFT JOIN v AS x ON x.k = w.p",
    "SELECT v.k, w.p, x.i FROM v LEFT JOIN (w JOIN v AS x ON x.k = w.p) ON v.k = w.k",
    "SELECT v.k, y.k FROM v LEFT JOIN w AS y ON v.k = y.k, w WHERE w.k = 1",
    "SELECT k, p, i FROM v NATURAL JOIN w",
    "SELECT k, p, x.i FROM v JOIN w USING (k) JOIN v AS x USING (k)",
    "SELECT * FROM (SELECT k, i FROM v) LEFT JOIN w USING (k)",
    "SELECT * FROM (SELECT k, i FROM v) FULL JOIN w USING (k)",
    "SELECT k FROM v LEFT SEMI JOIN w USING (k)",
    "SELECT v.k FROM v LEFT ANTI JOIN w ON v.k = w.k AND v.b = v.b > v.b",
    "SELECT v.k, w.k FROM v CROSS JOIN w WHERE v.k < w.k AND NOT v.b = v.b > v.b",
    # clauses
    "SELECT k FROM v WHERE b = b BETWEEN false AND true",
    "SELECT k FROM v WHERE NOT b = b > b OR k = 2 AND i < 0",
    "SELECT k FROM v WHERE NOT k IN (SELECT k FROM w WHERE k IS NOT NULL)",
    "SELECT k FROM v WHERE b AND k IN (SELECT k FROM w) AND i > 0",
    "SELECT k < 2, i FROM v", "SELECT k < 2 AS p, i > 2 AS q, k << 1 AS r FROM v",
    "SELECT count(*), k = 1 OR b AS g FROM v GROUP BY k = 1 OR b",
    "SELECT i = 5 AND k = 1 OR b AS g FROM v GROUP BY i, k, b, k = 1 OR b",
    "SELECT NOT k = 1 AND b AS g FROM v GROUP BY k, b, k = 1 AND b",
    "SELECT sum(k) FILTER (WHERE b = b > b OR k = 1) AS g FROM v",
    "SELECT count(DISTINCT k, i) AS g, count(i < 3) AS h FROM v",
    "SELECT k, sum(i) AS g FROM v GROUP BY k HAVING sum(i) > 0 = true",
    "SELECT k, rank() OVER (ORDER BY - k DESC NULLS LAST) AS r FROM v",
    "SELECT k FROM v ORDER BY st.last DESC, k LIMIT 2",
    "SELECT k FROM v WHERE k > 0 -- only \\\n AND k > 1\n",
    "SELECT v.k `and`, i AS `select` FROM v", "SELECT k AS end FROM v WHERE k IS NOT NULL",
    "WITH c AS (SELECT k FROM v), d AS (SELECT k FROM c WHERE k > 1) SELECT * FROM d, c",
    "FROM v |> WHERE k > 1 |> SELECT k",
    "SELECT k, e FROM v LATERAL VIEW explode(a) z AS e WHERE e > 1 = b",
)  # fmt: skip
