"""Whether real payloads fit into this machine's memory."""

from collections.abc import Callable

import psutil

from ubnet.cli.notes import note
from ubnet.errors import OptionError

PAYLOADS = ("auto", "real", "size")


def moves_bytes(
    payload: str, need: int, what: str, *, least: Callable[[], int] | None = None
) -> bool:
    """Decide whether a bench moves real bytes or only counts them.

    Parameters
    ----------
    payload : {"auto", "real", "size"}
        The user's wish; ``auto`` is real where `need` is under half of the free memory.
    need : int
        Bytes of all buffers.
    what : str
        What would be run, for the note.
    least : callable, optional
        Says how many bytes stand at the same time, where it runs in tiles.

    Raises
    ------
    OptionError
        If ``real`` is asked for and does not fit.
    """
    if payload == "size":
        return False
    free = psutil.virtual_memory().available
    if payload == "real":
        peak = need if least is None else least()
        less = "use --payload size, fewer ranks or smaller sizes"
        check_memory(peak, f"{what} with real bytes", less)
        return True
    if need > free // 2:
        note(
            f"{what}: size only, since its buffers take {_about(need)} and {_about(free)} are "
            "free (--payload real insists)"
        )
        return False
    return True


def check_memory(need: int, what: str, less: str) -> None:
    """Refuse what does not fit into the free memory, before it is tried.

    Parameters
    ----------
    need : int
        Bytes that it takes, about.
    what, less : str
        What would be run, and what to ask for instead.

    Raises
    ------
    OptionError
        If it does not fit.
    """
    free = psutil.virtual_memory().available
    if need > free:
        raise OptionError(f"{what} needs {_about(need)} and {_about(free)} are free: {less}")


def _about(nbytes: int) -> str:
    return f"{nbytes / 2**30:.2f} GiB"
