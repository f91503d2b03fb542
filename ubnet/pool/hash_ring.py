"""A ring of hashes: which owner keeps which key, so that few keys move when owners come or go."""

from bisect import bisect
from collections.abc import Iterable
from hashlib import blake2b

from ubnet.errors import OptionError

POINTS = 64
"""Points of an owner on the ring (assumed): the fullest of 192 then gets 1.4 of the mean."""


class HashRing:
    """Consistent hashing.

    Parameters
    ----------
    owners : iterable of int
        Numbers of those who keep keys.
    points : int
        Points of each on the ring; more of them share out more evenly.

    Examples
    --------
    >>> ring = HashRing(range(4))
    >>> before = {key: ring.owner(key) for key in map(str.encode, map(str, range(100)))}
    >>> ring.remove(2)
    >>> moved = [key for key, owner in before.items() if ring.owner(key) != owner]
    >>> all(before[key] == 2 for key in moved)
    True
    """

    def __init__(self, owners: Iterable[int], points: int = POINTS) -> None:
        self._points = points
        self._ring: list[tuple[int, int]] = []
        self.owners: list[int] = []
        for owner in owners:
            self._place(owner)
        self._sort()

    def __repr__(self) -> str:
        return f"HashRing({len(self.owners)} owners, {self._points} points each)"

    def add(self, owner: int) -> None:
        """Let one more owner keep keys."""
        self._place(owner)
        self._sort()

    def remove(self, owner: int) -> None:
        """Take an owner away: its keys go to others, no other key moves."""
        if owner not in self.owners:
            raise OptionError(f"{owner} is no owner of this ring")
        self.owners.remove(owner)
        self._ring = [point for point in self._ring if point[1] != owner]
        self._sort()

    def owner(self, key: bytes) -> int:
        """Return who keeps a key: the first point behind its hash."""
        if not self._ring:
            raise OptionError("a ring without owners keeps no key: add one first")
        at = bisect(self._hashes, _hash(key))
        return self._ring[at % len(self._ring)][1]

    def _place(self, owner: int) -> None:
        if owner in self.owners:
            raise OptionError(f"{owner} is an owner of this ring already")
        self.owners.append(owner)
        self._ring += [(_hash(b"%d.%d" % (owner, i)), owner) for i in range(self._points)]

    def _sort(self) -> None:
        self.owners.sort()
        self._ring.sort()
        self._hashes = [point for point, _ in self._ring]


def _hash(key: bytes) -> int:
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big")
