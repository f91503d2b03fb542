"""Memory that Python and numpy see as a buffer, from a class of our own."""

import numpy as np


class Octets(np.ndarray):
    """Bytes that ``memoryview`` and numpy take as they take an array, and no arithmetic.

    Python before 3.12 lets only classes written in C show memory, so it is numpy's that does it.
    What arrays do beyond that is that of plain objects here: identity, copies, texts.

    Examples
    --------
    >>> shown = np.frombuffer(bytearray(b"abc"), np.uint8).view(Octets)
    >>> bytes(memoryview(shown)), shown == shown, shown == b"abc"
    (b'abc', True, False)
    """

    __slots__ = ()

    __array_ufunc__ = None  # type: ignore[assignment]  # numpy refuses to compute with it
    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __str__ = object.__str__
    __format__ = object.__format__
    __reduce_ex__ = object.__reduce_ex__
    __copy__ = __deepcopy__ = None  # type: ignore[assignment]  # as of any object: by reducing it
