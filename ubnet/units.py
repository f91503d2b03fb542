"""Sizes, rates and times: read strictly and printed in one place."""

import re
from math import isfinite

from ubnet.errors import UnitError

PS_PER_S = 10**12
PS_PER_US = 10**6
PS_PER_NS = 10**3

MOST_BYTES = 2**50
"""A larger size (above 1 PiB) is refused: its virtual time might not fit into 64 bits."""

MOST_PS = 2**56
"""A longer time (20 hours) is refused: the sum of many of them would not fit into 64 bits."""

SIZES = {"B": 1, "": 1}
SIZES |= {f"{p}B": 1000**k for k, p in enumerate("kMGT", start=1)}
SIZES |= {f"{p}iB": 1024**k for k, p in enumerate("KMGT", start=1)}
RATES = {f"{p}B/s": 1000**k for k, p in enumerate(("", "k", "M", "G", "T"))}
RATES |= {f"{p}b/s": 1000**k / 8 for k, p in enumerate(("", "k", "M", "G", "T"))}
TIMES = {"ps": 1, "ns": PS_PER_NS, "us": PS_PER_US, "ms": 10**9, "s": PS_PER_S}

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)\s*([A-Za-z/]*)\Z")


def parse_size(text: str) -> int:
    """Read a size in bytes; without a unit it is bytes.

    >>> parse_size("64KiB"), parse_size("1.5MB"), parse_size("512")
    (65536, 1500000, 512)

    Raises
    ------
    UnitError
        If it is negative, above `MOST_BYTES`, has an unknown unit or is no whole number of bytes.
    """
    right = "64KiB, 1MiB, 1.5GB or a number of bytes"
    return _whole(text, "size", SIZES, right, MOST_BYTES, "bytes")


def parse_time(text: str) -> int:
    """Read a time in picoseconds.

    >>> parse_time("2us"), parse_time("0.5 ns")
    (2000000, 500)
    """
    return _whole(text, "time", TIMES, "2us, 0.5ms or 1s", MOST_PS, "picoseconds")


def parse_rate(text: str) -> float:
    """Read a rate in bytes per second; a small b means bits.

    >>> parse_rate("50GB/s") == parse_rate("400Gb/s")
    True
    """
    return _quantity(text, "rate", RATES, "50GB/s or 400Gb/s")


def format_size(nbytes: int) -> str:
    """Print a size so that `parse_size` reads the same number back.

    >>> format_size(65536), format_size(1000), format_size(1 << 20)
    ('64KiB', '1000B', '1MiB')
    """
    for prefix, power in (("T", 4), ("G", 3), ("M", 2), ("K", 1)):
        unit = 1024**power
        if nbytes and nbytes % unit == 0:
            return f"{nbytes // unit}{prefix}iB"
    return f"{nbytes}B"


def short_size(nbytes: int) -> str:
    """Print a size in at most four digits, for an axis.

    >>> short_size(65536), short_size(671 * 10**9), short_size(287_834_112)
    ('64KiB', '671GB', '287.8MB')
    """
    exact = format_size(nbytes)
    if len(exact.rstrip("KMGTiB")) <= 4:
        return exact
    power = max(k for k in range(5) if nbytes >= 1000**k)
    return f"{nbytes / 1000**power:.4g}{' kMGT'[power].strip()}B"


def format_time(time_ps: int) -> str:
    """Print a time with the largest unit that keeps it above one, four digits.

    >>> format_time(1_900_000), format_time(11_744_000_000), format_time(0)
    ('1.9 us', '11.74 ms', '0 ps')
    """
    for unit in ("s", "ms", "us", "ns"):
        if abs(time_ps) >= TIMES[unit]:
            return f"{time_ps / TIMES[unit]:.4g} {unit}"
    return f"{time_ps} ps"


def format_rate(bytes_per_s: float) -> str:
    """Print a rate in GB/s.

    >>> format_rate(196e9)
    '196 GB/s'
    """
    return f"{bytes_per_s / 1e9:,.6g} GB/s"


def _quantity(text: str, what: str, units: dict[str, int] | dict[str, float], right: str) -> float:
    match = _QUANTITY.match(text.strip())
    if match is None or match[2] not in units:
        allowed = ", ".join(u for u in units if u)
        raise UnitError(f"{text!r} is not a {what}: write {right} (units: {allowed})")
    value = float(match[1]) * units[match[2]]
    if not isfinite(value):
        raise UnitError(f"{text!r} is too large for a {what}: write {right}")
    return value


def _whole(
    text: str, what: str, units: dict[str, int], right: str, most: int, smallest: str
) -> int:
    value = _quantity(text, what, units, right)
    if value > most:
        raise UnitError(f"{text!r} is too large for a {what}: give at most {most} {smallest}")
    if value != int(value):
        raise UnitError(f"{text!r} is no whole number of {smallest}: write {right}")
    return int(value)
