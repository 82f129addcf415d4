"""``python -m ctsql``: the command line, where the script ``ctsql`` is not on the path."""

from ctsql.cli import main

if __name__ == "__main__":
    main()
