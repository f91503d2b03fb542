"""Who holds which lock of a window, and who waits: granted in the order of asking."""

from typing import NamedTuple

from ubnet.access import EVERYBODY


class Claim(NamedTuple):
    """A lock that a rank asks `home` for: on one member of the window, or on everybody."""

    rank: int
    number: int
    target: int
    exclusive: bool
    home: int


class LockQueue:
    """The locks of one window.

    A claim is granted when no other one stands against it, held or asked for earlier. Two claims
    stand against each other if they have a target in common and one of them is exclusive.

    Examples
    --------
    >>> locks = LockQueue()
    >>> locks.ask(Claim(0, 1, 5, True, 5)), locks.ask(Claim(1, 1, 5, False, 5))
    (True, False)
    >>> locks.release(0, 5)
    [Claim(rank=1, number=1, target=5, exclusive=False, home=5)]
    """

    def __init__(self) -> None:
        self._held: list[Claim] = []
        self._waiting: list[Claim] = []

    def ask(self, claim: Claim) -> bool:
        """Ask for a lock; return whether it is granted at once."""
        if _blocked(claim, self._held) or _blocked(claim, self._waiting):
            self._waiting.append(claim)
            return False
        self._held.append(claim)
        return True

    def release(self, rank: int, target: int) -> list[Claim]:
        """End a rank's lock on a target; return the claims that are granted now, in order."""
        mine = next(c for c in self._held if (c.rank, c.target) == (rank, target))
        self._held.remove(mine)
        granted: list[Claim] = []
        still: list[Claim] = []
        for claim in self._waiting:
            if _blocked(claim, self._held) or _blocked(claim, still):
                still.append(claim)
            else:
                self._held.append(claim)
                granted.append(claim)
        self._waiting = still
        return granted


def _blocked(claim: Claim, others: list[Claim]) -> bool:
    target, exclusive = claim.target, claim.exclusive
    for other in others:
        if (exclusive or other.exclusive) and (
            target in (other.target, EVERYBODY) or other.target == EVERYBODY
        ):
            return True
    return False
