"""What is kept for one rank alone: every rank has objects, numbers and names of its own."""

from typing import Any

from ubnet.errors import UbnetError
from ubnet.rank import current

_outside: dict[str, Any] = {}


def kept(name: str) -> dict[Any, Any]:
    """Return the table of that name that the running rank keeps.

    Where no rank runs, as at the import of a program's module, the process keeps it.
    """
    try:
        store = current().kept
    except UbnetError:
        store = _outside
    table: dict[Any, Any] = store.setdefault(name, {})
    return table
