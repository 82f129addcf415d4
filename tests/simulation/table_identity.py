"""What never changes of a table in a simulation: which one it is, and its columns."""


class Identity:
    """Which table it is is never in doubt."""

    owner: str | None = None
    expected: str | None = None
    newest = 1 << 62

    def expect(self, owner: str, table_id: str | None, _replaced_error: object) -> None:
        """Whose it is."""
        self.owner, self.expected = owner, table_id


class Versions:
    """All are read alike."""

    def read_alike(self, _first: int, _last: int) -> bool:
        """They are."""
        return True
