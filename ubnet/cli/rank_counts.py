"""Numbers of ranks on the command line: one, a list, or a range that doubles."""

from ubnet.errors import OptionError


def read_rank_counts(option: str, text: str, least: int = 1) -> list[int]:
    """Read ``8``, ``8,32`` or ``8:320``: doubling, the end included.

    >>> read_rank_counts("--ranks", "3,8:48")
    [3, 8, 16, 32, 48]

    Raises
    ------
    OptionError
        In the option's name, where these are no such numbers, or less than `least`.
    """
    counts: list[int] = []
    for part in text.split(","):
        ends = part.split(":")
        if len(ends) > 2 or not all(e.strip().isdecimal() and int(e) >= least for e in ends):
            raise OptionError(f"{option} {text}: give ranks, such as 32, 8,32 or 8:320 (doubling)")
        first, last = int(ends[0]), int(ends[-1])
        if first > last or (len(ends) == 2 and not first):
            raise OptionError(f"{option} {text}: {part} must grow, as in 8:320")
        doubled = [first << k for k in range((last // max(first, 1)).bit_length() or 1)]
        counts += doubled if doubled[-1] == last else [*doubled, last]
    return counts
