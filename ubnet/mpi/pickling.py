"""Pickling: how the lower-case methods turn objects into bytes and back."""

import pickle as standard
from collections.abc import Callable, Sequence
from typing import Any

from .memory import buffer

KEPT_APART = 1 << 18
LENGTH_BYTES = 8
"""How many bytes the length of an object takes that stands behind it."""


class Pickle:
    """Turns objects into bytes and back.

    Parameters
    ----------
    dumps, loads : callable, optional
        What to use instead of the standard pickle.
    protocol : int, optional
        Pickle protocol; by default the highest.

    Examples
    --------
    >>> Pickle().loads(Pickle().dumps([1, 2]))
    [1, 2]
    """

    def __init__(
        self,
        dumps: "Callable[..., bytes] | Pickle | None" = None,
        loads: Callable[..., Any] | None = None,
        protocol: int | None = None,
        threshold: int | None = None,
    ) -> None:
        given = dumps._dumps if isinstance(dumps, Pickle) else dumps
        if isinstance(dumps, Pickle):
            loads = dumps._loads
        self._dumps: Callable[..., Any] = given or standard.dumps
        self._loads: Callable[..., Any] = loads or standard.loads
        if protocol is None and self._dumps is standard.dumps:
            protocol = standard.HIGHEST_PROTOCOL
        self.PROTOCOL = protocol
        self.THRESHOLD = threshold

    @property
    def THRESHOLD(self) -> int:
        """Bytes from which on `dumps_oob` keeps a buffer apart; None sets the default."""
        return self._threshold

    @THRESHOLD.setter
    def THRESHOLD(self, nbytes: int | None) -> None:
        self._threshold = KEPT_APART if nbytes is None else nbytes

    def dumps(self, obj: Any) -> bytes:
        """Return an object as bytes."""
        if self.PROTOCOL is None:
            return bytes(self._dumps(obj))
        return bytes(self._dumps(obj, self.PROTOCOL))

    def loads(self, data: Any) -> Any:
        """Return the object that bytes hold."""
        return self._loads(data)

    def dumps_oob(self, obj: Any) -> tuple[bytes, list[buffer]]:
        """Return an object as bytes, large buffers apart."""
        buffers: list[buffer] = []

        def keep_apart(given: standard.PickleBuffer) -> bool:
            raw = given.raw()
            if raw.nbytes < self.THRESHOLD:
                return True
            buffers.append(buffer.frombuffer(raw, readonly=raw.readonly))
            return False

        protocol = max(self.PROTOCOL or standard.HIGHEST_PROTOCOL, 5)
        return bytes(self._dumps(obj, protocol, buffer_callback=keep_apart)), buffers

    def loads_oob(self, data: Any, buffers: Any) -> Any:
        """Return the object that bytes and the buffers apart hold."""
        return self._loads(data, buffers=buffers)


pickle = Pickle()
"""What all lower-case methods use; a program may set its methods' parts anew by ``__init__``."""


def load(data: Any) -> Any:
    """Return the object of a message; an empty one holds None."""
    return pickle.loads(data) if data is not None and len(data) else None


def dump_each(objects: Any, blocks: int) -> list[bytes]:
    """Return each object as bytes; None stands for a None for every rank.

    Raises
    ------
    ValueError
        If there are not as many as ranks.
    """
    items = [None] * blocks if objects is None else list(objects)
    if len(items) != blocks:
        raise ValueError(f"expecting {blocks} items, got {len(items)}")
    return [pickle.dumps(item) for item in items]


def framed(data: Sequence[bytes]) -> bytes:
    """Return pickled objects one behind the other, each behind its length."""
    return b"".join(len(d).to_bytes(LENGTH_BYTES, "little") + d for d in data)


def load_each(data: Any) -> list[Any]:
    """Return the objects that `framed` has put one behind the other.

    >>> load_each(framed(dump_each([1, "two"], 2)))
    [1, 'two']
    """
    view = memoryview(data)
    objects, place = [], 0
    while place < len(view):
        end = place + LENGTH_BYTES + int.from_bytes(view[place : place + LENGTH_BYTES], "little")
        objects.append(load(view[place + LENGTH_BYTES : end]))
        place = end
    return objects
