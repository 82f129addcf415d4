"""The texts that Spark was given last, so that an error of a row is shown at its place.

Spark computes rows long after it read a text, and its error then quotes the text: as it was given,
with names of ours in it. What is remembered leads from there to the user's own text.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from ctsql.catalog.spans import Span
from ctsql.planner.lowering.context import SparkText

TEXTS_MAX = 1_000
"""How many texts are remembered; an error of an older one is shown without its place."""


@dataclass(frozen=True, slots=True)
class SentText:
    """A text that Spark was given, and how to read what Spark says of it.

    Attributes:
        within: the user's text that it was made from.
        relation_name: gives back the user's name for a name of ours.
    """

    spark_text: SparkText
    within: Span
    relation_name: Callable[[str], str] | None


class SentTexts:
    """The last texts, by what Spark quotes. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_text: OrderedDict[str, SentText] = OrderedDict()

    def remember(self, text: SentText) -> None:
        """Note a text that Spark is given; of equal ones the last counts."""
        key = text.spark_text.text
        with self._lock:
            self._by_text[key] = text
            self._by_text.move_to_end(key)
            if len(self._by_text) > TEXTS_MAX:
                self._by_text.popitem(last=False)

    def find(self, text: str) -> SentText | None:
        """The text that Spark quotes; None when it is not known (any more)."""
        with self._lock:
            return self._by_text.get(text)


sent_texts = SentTexts()
