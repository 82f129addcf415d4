"""Parses SQL text into statements, and replaces names in the user's text."""

from ctsql.planner.syntax.parse import parse, parse_as
from ctsql.planner.syntax.tokens.rewrite import RewrittenText, rewrite, splice
from ctsql.planner.syntax.tokens.tokenizer import is_complete, split

__all__ = ["RewrittenText", "is_complete", "parse", "parse_as", "rewrite", "splice", "split"]
