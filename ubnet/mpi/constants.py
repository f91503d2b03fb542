"""The numbers of MPI that programs pass and compare; the values are those of Open MPI."""

UNDEFINED = -32766
ANY_SOURCE = -1
ANY_TAG = -1
PROC_NULL = -2
ROOT = -4

IDENT, CONGRUENT, SIMILAR, UNEQUAL = range(4)

THREAD_SINGLE, THREAD_FUNNELED, THREAD_SERIALIZED, THREAD_MULTIPLE = range(4)

VERSION, SUBVERSION = 4, 1

LOCK_EXCLUSIVE, LOCK_SHARED = 1, 2

MODE_NOCHECK, MODE_NOPRECEDE, MODE_NOPUT, MODE_NOSTORE, MODE_NOSUCCEED = 1, 2, 4, 8, 16

WIN_FLAVOR_CREATE, WIN_FLAVOR_ALLOCATE, WIN_FLAVOR_DYNAMIC, WIN_FLAVOR_SHARED = 1, 2, 3, 4
WIN_SEPARATE, WIN_UNIFIED = 0, 1

WIN_BASE, WIN_SIZE, WIN_DISP_UNIT, WIN_CREATE_FLAVOR, WIN_MODEL = 7, 8, 9, 10, 11
"""What asks for a predefined attribute of a window."""

BSEND_OVERHEAD = 128
MAX_PROCESSOR_NAME = 256
MAX_ERROR_STRING = 256
MAX_OBJECT_NAME = 64
MAX_LIBRARY_VERSION_STRING = 256

LARGEST_TAG = 2**31 - 1
"""What the attribute TAG_UB says."""


class InPlaceType(int):
    """The type of IN_PLACE."""

    def __repr__(self) -> str:
        return "IN_PLACE"


class BottomType(int):
    """The type of BOTTOM."""

    def __repr__(self) -> str:
        return "BOTTOM"


IN_PLACE = InPlaceType(-1)
"""In the place of a buffer: the other buffer holds the data of both."""

BOTTOM = BottomType(0)
"""The bottom of the address space."""


def in_place(buf: object) -> bool:
    """Say whether a program gave IN_PLACE, or None, which means the same."""
    return buf is None or isinstance(buf, InPlaceType)
