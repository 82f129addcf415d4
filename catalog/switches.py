"""The words for on and off: in settings, commands, options of files, and the environment."""

_WORDS = dict.fromkeys(("true", "on", "yes", "1"), True) | dict.fromkeys(
    ("false", "off", "no", "0"), False
)


def read_switch(text: str) -> bool | None:
    """Whether a word means on, in any case; None if it means neither on nor off.

    >>> [read_switch(word) for word in ("ON", "yes", "1", "False", "off", "no", "maybe", "")]
    [True, True, True, False, False, False, None, None]
    """
    return _WORDS.get(text.lower())
