"""The tokens of the ordinary statement that a short form stands for."""

from ctsql.catalog.spans import Source
from ctsql.planner.desugar.retain import compile_retain
from ctsql.planner.desugar.transform import compile_transform
from ctsql.planner.syntax.fragments import TaskForm
from ctsql.planner.syntax.tokens.tokenizer import Tokens, tokenise


def compiled(form: TaskForm) -> Tokens:
    """The tokens of the form's continual task; errors show that statement's text."""
    text = compile_retain(form) if form.retain else compile_transform(form)
    return tokenise(Source(text, f"{form.span.source.name} (compiled)").whole())
