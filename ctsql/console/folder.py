"""The .sql files of a folder, as texts.

`apply --prune` drops objects that are not in the folder. So a file that may hold definitions and
cannot be read is an error; it is never skipped.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from ctsql.catalog.errors import misuse
from ctsql.catalog.spans import Source
from ctsql.console.variables import substitute

SUFFIX = ".sql"


def sql_files(folder: Path, variables: Mapping[str, str] | None = None) -> list[Source]:
    """The .sql files of a folder and its subfolders, in order of name, with variables replaced.

    Names that begin with a dot are left out. A source's name is its path relative to the folder.

    Raises:
        INVALID_USAGE: the folder does not exist or has no file. Or entries that may hold
            definitions cannot be read; each is named: a link to a folder or to nothing, a pipe,
            socket or device, another spelling of .sql, a name or text that is not UTF-8, a file or
            folder that is not readable or was removed meanwhile.
    """
    if not folder.is_dir():
        raise misuse(f"there is no folder {folder}")
    files, problems, texts = list[Path](), dict[Path, str](), list[Source]()
    _list(folder, files, problems)
    for path in sorted(files, key=lambda p: p.relative_to(folder).parts):
        try:
            texts.append(_read(path, variables))
        except (OSError, UnicodeDecodeError) as problem:
            problems[path] = _why(problem)
    if problems:
        detail = " ".join(f"{_shown(path)} {why}." for path, why in sorted(problems.items()))
        raise misuse(
            f"not all of {folder} can be read",
            f"{detail} What they define would count as removed, so nothing was done.",
        )
    if not texts:
        detail = "A folder without definitions would remove everything from a warehouse."
        raise misuse(f"there is no .sql file in {folder}", detail)
    return texts


def _list(folder: Path, files: list[Path], problems: dict[Path, str]) -> None:
    """Add the files of a folder and its subfolders, and unreadable entries with the reason."""
    try:
        with os.scandir(folder) as entries:
            found = [e for e in entries if not e.name.startswith(".")]
    except OSError as problem:
        problems[folder] = _why(problem)
        return
    for entry in found:
        path = folder / entry.name
        try:
            mode = os.stat(path).st_mode
            is_link = entry.is_symlink()
        except OSError as problem:
            problems[path] = "is a link to nothing" if entry.is_symlink() else _why(problem)
            continue
        is_folder = stat.S_ISDIR(mode)
        if not is_folder and not entry.name.lower().endswith(SUFFIX):
            continue
        if _shown(path) != str(path):
            problems[path] = "has a name that is not UTF-8"
        elif is_folder and is_link:
            problems[path] = "is a link to a folder; links to files are read"
        elif is_folder:
            _list(path, files, problems)
        elif not stat.S_ISREG(mode):
            problems[path] = "is not a regular file"
        elif not entry.name.endswith(SUFFIX):
            problems[path] = f"does not end in {SUFFIX}, in lower case"
        else:
            files.append(path)


def _shown(path: Path) -> str:
    """The path as text that can be written anywhere."""
    return os.fsencode(path).decode(errors="replace")


def _why(problem: OSError | UnicodeDecodeError) -> str:
    if isinstance(problem, UnicodeDecodeError):
        return f"is not UTF-8 text: byte {problem.start} is none"
    return f"cannot be read: {problem.strerror or problem}"


def _read(path: Path, variables: Mapping[str, str] | None) -> Source:
    text = path.read_bytes().decode("utf-8-sig")
    return Source(substitute(text, variables or {}), str(path))
