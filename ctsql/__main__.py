"""``ctsql`` and ``python -m ctsql``: by a Spark that was left running, else by one of its own."""

import sys


def main() -> None:
    """Run the command line and end the process with its exit status."""
    from ctsql.warm.client import served

    status = served(sys.argv[1:])
    if status is not None:
        sys.exit(status)
    from ctsql.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
