"""The statement as typed, as a comment above what it was compiled to."""


def commented(typed: str, compiled: str) -> str:
    r"""The compiled text below its origin.

    >>> print(commented("CREATE FLOW f\n  AS ...", "CREATE ..."))
    -- Made by:
    --   CREATE FLOW f
    --     AS ...
    CREATE ...
    """
    lines = [f"--   {line}".rstrip() for line in typed.strip().splitlines()]
    return "\n".join(["-- Made by:", *lines, compiled])
