"""Which source files are ubnet's own: reports show the program's lines, not these."""

import os
from pathlib import Path

_HERE = str(Path(__file__).parent) + os.sep


def is_own(file: str) -> bool:
    """Say whether a source file belongs to ubnet.

    >>> is_own(__file__), is_own("program.py")
    (True, False)
    """
    return file.startswith(_HERE)
