"""SQL text to statements: splitting, reading, and putting other names into the user's text."""

from ctsql.planner.syntax.parse import parse
from ctsql.planner.syntax.tokens.rewrite import Rewritten, rewrite, splice
from ctsql.planner.syntax.tokens.split import is_complete, split
from ctsql.planner.syntax.tokens.sqltext import analyse

__all__ = ["Rewritten", "analyse", "is_complete", "parse", "rewrite", "splice", "split"]
