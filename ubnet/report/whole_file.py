"""A file that is there whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give the name of a file to write; it gets its own name when all is written.

    What stood there before stays where writing fails. A device or a pipe is written directly.

    Parameters
    ----------
    path : Path
        The name that the file shall have.

    Yields
    ------
    Path
        Where to write, with the same suffix.

    Raises
    ------
    OSError
        With the file's own name, where it cannot be written.
    """
    there = path.resolve()
    if there.exists() and not there.is_file():
        yield path
        return
    draft = there.with_name(f".{there.stem}.{os.getpid()}{there.suffix}")
    try:
        yield draft
        os.replace(draft, there)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    finally:
        draft.unlink(missing_ok=True)
