"""What the flow engine knows: the columns of its tables.

State is handed from kernel to kernel as tables of rows; `tables` makes and lengthens them.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ubnet.jit import together

U1 = NDArray[np.uint8]
I4 = NDArray[np.int32]
I8 = NDArray[np.int64]
F8 = NDArray[np.float64]
Mask = NDArray[np.bool_]
Int = int | np.int64
Table = Any  # np.recarray, whose columns are attributes; or its first row, see `ubnet.jit`
Column = Any  # an array of one dimension, or its first row
Row = Any  # np.record, one row of a table: what is written to it is written to the table

NEVER = 1 << 62
PS_PER_S = 1e12
# Ends within 3.1e-4 ps below a half round up as well: an end that lies on a half by its nature
# (odd sizes at 400 GB/s) is then the same picosecond by whichever arithmetic it was found.
ROUND_UP = 0.5 + 3.1e-4
# Levels closer than this, relatively, are one level: equal flows get equal rates to the last bit.
SAME_LEVEL = 1e-12

MOST_NUMBERED = 1 << 30  # sweeps, fillings or sums, whose numbers rows keep in four bytes
PATIENCE = 64  # so many sweeps more are given up before rows are tried again
CRAMPED = -1  # what `clock.unfit` says where slots alone are missing
ELSEWHERE = -2

# What a link does at its level.
STOP = 0
LET_RISE = 1  # those that it holds back: others may stop them before it does
# Give those that it holds back all that the others leave, in one step: where none of them rises yet
# and no flow has a cap.
LIFT = 2

# What `work` does.
NO_EVENT = 0
ALL_EVENTS = 1
WATCHED_END = 2
# The dense matrix holds sums of whole shares in two bytes.
MOST_EQUAL = 64.0
MOST_SHARES = 32_000.0
# Of a heap. Ids and counts that are passed on are int64 from the start in all of this folder: Numba
# compiles a kernel once more for each literal and each width of integer it is called with.
TOP = np.int64(0)
SIZES_OF_ROOM = 32  # free rows are kept by the power of two of the hops that they have room for
RECENT = 256  # recently used instants of the waiting queue; a power of two

# The state is a handful of tables (numpy record arrays): one row holds what is used together.
CLOCK = [  # of the whole simulation
    ("now", "i8"),
    ("posted", "i8"),  # flows so far
    ("active", "i8"),
    ("links", "i8"),  # in all
    ("busy_links", "i8"),
    ("waiting", "i8"),
    ("stale", "i8"),
    ("next_end", "i8"),
    ("reported", "i8"),
    ("epoch", "i8"),
    ("events", "i8"),
    ("reallocations", "i8"),
    ("touched", "i8"),
    ("sweeps", "i8"),  # re-allocations that were done by a sweep
    ("sweep", "i8"),  # the number of the present one
    ("swept_flows", "i8"),
    ("listed_links", "i8"),
    ("hops", "i8"),  # of all active flows
    # Sweeps that were given up, in a row; from -PATIENCE on where flows did not fit into rows.
    ("misses", "i8"),
    ("wait", "i8"),  # re-allocations to fill anew before the next sweep is tried
    ("changed_links", "i8"),
    ("odd_flows", "i8"),  # active ones with a weight, a cap or a share of their own
    ("wanted", "i8"),  # columns that a dense matrix would need; 0: none is wanted
    ("dense", "i8"),  # 1 while the active flows are in rows
    ("steps", "i8"),  # rows frozen by the last filling
    ("lowest", "i8"),  # the first of them that has changed since
    ("unfit", "i8"),  # 1: flows have started that do not fit into rows; CRAMPED: for lack of slots
    ("crowd", "i8"),  # active flows when the dense regime began
    # Rows in use of each table. Those of ended flows are cleared out of the posted ones at times,
    # and of what hangs on them; flows and hops are used again.
    ("rows", "i8"),
    ("kind_rows", "i8"),
    ("route_rows", "i8"),
    ("edges_used", "i8"),
    ("flow_rows", "i8"),
    ("hop_rows", "i8"),
    ("level_room", "i8"),  # and rows that they have in all
    ("posted_room", "i8"),
    ("kind_room", "i8"),
    ("route_room", "i8"),
    ("edge_room", "i8"),
    ("flow_room", "i8"),
    ("hop_room", "i8"),
    ("end_room", "i8"),
    ("columns", "i8"),  # of the dense matrix
    ("to_come", "i8"),  # posted flows that will still need a row, and the rows of their hops
    ("hops_to_come", "i8"),
    ("unfinished", "i8"),
    ("grouped", "i8"),  # flows that another one, equal to them, stands for
    ("tolerance", "i8"),  # ends that follow the first within this part of the time, times 1e9, wait
    ("held_back", "i8"),  # flows that waited, and the longest of it in picoseconds
    ("longest_held", "i8"),
    ("sums", "i8"),  # which sums of links are right: those with this number
    ("looked", "i8"),  # hops that the present sweep has looked at
    ("capped", "i8"),  # active flows with a cap
    ("unknown_blocks", "i8"),  # of active flows, whose first end is to be looked for
    ("first_block", "i8"),  # of those in which flows end next, and the last
    ("last_block", "i8"),
]
POSTED = [  # every flow from its post on, in the order of numbers
    # The latest of its start and its dependencies' ends (less the start-up, where these hold back
    # the bytes alone).
    ("since_ps", "i8"),
    ("number", "i8"),  # what the flow is called outside
    ("kind", "i4"),
    ("pending", "i4"),  # dependencies that have not ended; -1: another one stands for it
    ("first_edge", "i4"),  # to the flows that wait for this one
    ("next_waiting", "i4"),  # the next flow of the same instant in the queue
    ("bucket", "i4"),  # head of the instant's list, kept at the flow that opened it
    ("equal", "i4"),  # the next of the flows that are equal to this one and end with it, or -1
    ("flow", "i4"),  # its row from when it moves bytes on, else -1
    ("watch", "i2"),
]
KINDS = [  # what flows that are posted as alike have in common
    ("volume", "i8"),
    ("startup_ps", "i8"),
    ("weight", "f8"),
    ("cap", "f8"),
    ("first_stop", "i4"),  # its route, and how many links that has
    ("hops", "i4"),
]
ROUTES = [("share", "f8"), ("link", "i4")]
FLOWS = [  # two cache lines: a flow that moves bytes
    ("level", "f8"),  # rate over weight
    ("weight", "f8"),
    ("cap", "f8"),  # bytes/s; inf where no cap can hold the flow back
    ("rate", "f8"),  # bytes/s
    ("first_hop", "i4"),
    ("end_hop", "i4"),  # where its hops end
    ("stopped_by", "i4"),  # the full link that holds it back, or -1: its own cap
    ("inside", "i4"),  # the last sweep that may change its rate
    ("open_in", "i4"),  # the filling in which it still rises
    ("position", "i4"),  # among the active ones, or -1
    ("posted", "i4"),  # its row among the posted ones
    ("odd", "i4"),  # 1: its weight, cap or a share is not the default
    ("left", "f8"),  # bytes left at `since_ps`
    ("since_ps", "i8"),  # when `rate` last changed
    ("volume", "i8"),
    ("in_rows", "i4"),  # 1 once the dense regime has it: its row there says what it has left
    # Row r: one plus the first row that is free and has room for 2**r hops.
    ("first_free", "i4"),
    ("next_free", "i4"),  # one plus the next of these
    ("room", "7i4"),  # to two cache lines
]
HOPS_OF_FLOWS = [  # one row a link of a route; the active ones of a link are doubly linked
    ("link", "i4"),
    ("flow", "i4"),
    ("share", "f8"),
    ("next", "i4"),
    ("prev", "i4"),
    ("next_own", "i4"),  # of the flows that the link holds back or lets rise; ELSEWHERE: not there
    ("prev_own", "i4"),
]
# Dependencies, listed by the flow that is waited for: of the flow that waits, or as -1 - flow of
# one whose bytes alone wait.
EDGES = [("flow", "i4"), ("next", "i4")]
LINKS = [  # three cache lines: the first is all that a flow needs which has the link for itself
    ("capacity", "f8"),
    ("bytes", "f8"),  # carried by flows that have ended, times share
    ("first_hop", "i4"),
    ("crowd", "i4"),  # its active flows
    ("held", "i4"),  # flows that it holds back, those that the sweep may change apart
    ("summed", "i4"),  # `clock.sums` while a sweep's sums are right
    ("left_in", "i4"),  # the last sweep before which a flow left it, and others stayed
    ("touched", "i4"),  # the last sweep that looked at it
    ("listed", "i4"),  # 1 while it is one of those to look at
    ("position", "i4"),  # among the busy links
    ("busy", "i4"),  # column of the busy links
    ("changed", "i4"),  # column of the links that flows have left
    ("to_look_at", "i4"),  # column of the links whose level is to be found anew
    ("column", "i4"),  # of the dense matrix, or -1
    # What its frozen flows leave, and what rounding lost of it. Of a sweep: those that it neither
    # holds back nor lets rise.
    ("free", "f8"),
    ("free_low", "f8"),
    ("open_weight", "f8"),  # share times weight of the other flows, and what rounding lost of it
    ("open_low", "f8"),
    ("weight", "f8"),  # the most that `open_weight` was since it was summed up
    ("most", "f8"),  # no frozen flow of a sweep has a higher level
    ("held_level", "f8"),  # of the flows that it holds back
    ("own_count", "i4"),  # flows that it holds back or lets rise
    ("open_count", "i4"),  # flows that rise
    ("stop_level", "f8"),  # the level at which it stops, or stopped, flows; inf where it does not
    ("queued", "f8"),  # the lowest level in the heap that stands for it
    ("first_own", "i4"),
    ("then", "i4"),  # what it does at `stop_level`
    ("room", "5i8"),  # to three cache lines
]
LISTS = [  # columns of flow ids, and of what goes with them
    ("waiting_ps", "i8"),
    ("waiting", "i4"),
    ("active", "i4"),
    ("swept", "i4"),  # flows whose rate the sweep may change
    ("batch", "i4"),
    ("reported", "i8"),  # numbers
]
LEVELS = [("level", "f8"), ("of", "i8")]  # a heap of links, and of flows with caps as -1 - flow
RECENT_INSTANTS = [("at_ps", "i8"), ("bucket", "i8")]

# Python reads the clock as a row of integers.
PLACES = {name: place for place, (name, _) in enumerate(CLOCK)}


class Engine(NamedTuple):
    """The tables of a simulation; ``ends`` holds the end of each flow by its number, else -1."""

    clock: Table
    posted: Table
    kinds: Table
    routes: Table
    flows: Table
    hops: Table
    edges: Table
    links: Table
    lists: Table
    levels: Table
    recent: Table
    due_ps: Column
    first_ps: Column
    unknown: Column
    ends: Column


I8_ROWS = np.dtype(np.int64)
# What a row of each is, for those who make the tables and for kernels, which find them by it alone.
ENGINE_ROWS = Engine(
    clock=np.dtype(CLOCK, align=True),
    posted=np.dtype(POSTED, align=True),
    kinds=np.dtype(KINDS, align=True),
    routes=np.dtype(ROUTES, align=True),
    flows=np.dtype(FLOWS, align=True),
    hops=np.dtype(HOPS_OF_FLOWS, align=True),
    edges=np.dtype(EDGES, align=True),
    links=np.dtype(LINKS, align=True),
    lists=np.dtype(LISTS, align=True),
    levels=np.dtype(LEVELS, align=True),
    recent=np.dtype(RECENT_INSTANTS, align=True),
    due_ps=I8_ROWS,
    first_ps=I8_ROWS,
    unknown=I8_ROWS,
    ends=I8_ROWS,
)
engine_of = together(ENGINE_ROWS)
ROOMS = {  # columns of the clock that say how many rows a table has in all
    "levels": "level_room",
    "posted": "posted_room",
    "kinds": "kind_room",
    "routes": "route_room",
    "edges": "edge_room",
    "flows": "flow_room",
    "hops": "hop_room",
    "ends": "end_room",
}
