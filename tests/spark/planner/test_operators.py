"""Spark's own parser says how every pair and triple of operators binds."""

import logging
import re
from collections.abc import Iterator, Sequence

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ctsql.api import Connection
from ctsql.planner.syntax.tokens.operators import UncertainText
from tests.unit.planner.syntax.operator_texts import KINDS, around_operands, in_a_row, parenthesised

pytestmark = pytest.mark.spark
_TOGETHER = 400
Pair = tuple[str, str]


class SparkParser:
    """Compares what Spark reads."""

    def __init__(self, spark: SparkSession) -> None:
        self.parser = spark._jsparkSession.sessionState().sqlParser()

    def reads(self, text: str) -> bool:
        """Is it an expression to Spark?"""
        try:
            self.parser.parsePlan(f"SELECT 1 WHERE {text}")
        except (PySparkException, Py4JJavaError):
            return False
        return True

    def differing(self, pairs: Sequence[Pair]) -> list[Pair]:
        """The pairs of texts that are not the same expression to Spark."""
        if self._are_same(pairs):
            return []
        if len(pairs) == 1:
            return list(pairs)
        half = len(pairs) // 2
        return self.differing(pairs[:half]) + self.differing(pairs[half:])

    def _are_same(self, pairs: Sequence[Pair]) -> bool:
        try:
            left, right = (
                self.parser.parsePlan("SELECT " + ", ".join(pair[side] for pair in pairs))
                for side in (0, 1)
            )
        except (PySparkException, Py4JJavaError):
            return False
        # Subqueries have numbers, each its own.
        return bool(left.equals(right)) or _bare(left.toString()) == _bare(right.toString())


def _bare(text: str) -> str:
    return re.sub(r"#\d+", "", text)


@pytest.fixture(scope="module")
def parser(shared: tuple[Connection, object]) -> Iterator[SparkParser]:
    """Spark's parser; what it refuses is not written to the log."""
    log = logging.getLogger("SQLQueryContextLogger")
    level = log.level
    log.setLevel(logging.CRITICAL)
    yield SparkParser(shared[0].spark)
    log.setLevel(level)


def split(texts: Sequence[str]) -> tuple[list[Pair], list[str]]:
    """Texts that are read, with all their parentheses, and those that are not."""
    read, unread = [], []
    for text in texts:
        try:
            read.append((text, " ".join(parenthesised(text.split()))))
        except UncertainText:
            unread.append(text)
    return read, unread


def check(parser: SparkParser, texts: Sequence[str]) -> int:
    """Whatever we read, Spark reads, and in the same shape; how many were read?"""
    # To Spark's lexer STRUCT opens a type, in which >> closes two; 't' is no length of time.
    read, _ = split(
        [t for t in texts if not (("struct" in t and ">>" in t) or "INTERVAL 't'" in t)]
    )
    for start in range(0, len(read), _TOGETHER):
        assert parser.differing(read[start : start + _TOGETHER]) == []
    return len(read)


def test_every_pair_binds_as_in_spark(parser: SparkParser) -> None:
    """One and two operators in every order, each with names as operands."""
    assert check(parser, [*in_a_row(1), *in_a_row(2)]) > 2_600


@pytest.mark.slow
def test_every_operand_is_cut_as_in_spark(parser: SparkParser) -> None:
    """Literals, calls, CASE, casts, subqueries and lambdas on each side of every operator."""
    assert check(parser, around_operands()) > 4_000


@pytest.mark.slow
def test_every_triple_binds_as_in_spark(parser: SparkParser) -> None:
    """Three operators in every order, one of each kind that the grammar has."""
    assert check(parser, in_a_row(3, KINDS)) > 10_000


# Spark takes nearly every keyword for a name where nothing else fits: ANY (..) = b is a function.
_KEYWORD_AS_NAME = re.compile(
    r"LIKE (?:ANY|SOME|ALL) \( [^)]*\) .|"
    r"(?:^|[-+*/%&|^<>=~!\[(] |AND |OR |NOT |LIKE |BETWEEN |FROM |DIV |RLIKE |REGEXP |-> )"
    r"(?:AND|OR|NOT|IS|IN|LIKE|ILIKE|RLIKE|BETWEEN|DIV|ESCAPE|INTERVAL|CASE|EXISTS|END|COLLATE)\b"
)


@pytest.mark.slow
def test_what_is_not_read_is_refused_by_spark(parser: SparkParser) -> None:
    """Or it has a keyword as a name, or an alias."""
    _, unread = split([*in_a_row(1), *in_a_row(2)])
    doubtful = [t for t in unread if not _KEYWORD_AS_NAME.search(t)]
    assert len(doubtful) > 1_000
    assert [t for t in doubtful if parser.reads(t)] == []
