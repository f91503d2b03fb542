"""How deep operations stand in a graph of dependencies."""

import numpy as np
from numpy.typing import NDArray

from ubnet.jit import kernel

Ints = NDArray[np.int64]


@kernel
def levels(dep_ptr: Ints, dep: Ints) -> Ints:
    """Return the longest chain of dependencies below each node, all of them earlier nodes.

    Parameters
    ----------
    dep_ptr, dep : ndarray of int64
        Node ``i`` waits for ``dep[dep_ptr[i]:dep_ptr[i + 1]]``.

    Returns
    -------
    ndarray of int64, shape (nodes,)
        0 for a node that waits for nothing.

    Examples
    --------
    >>> levels(np.array([0, 0, 1, 2]), np.array([0, 1])).tolist()
    [0, 1, 2]
    """
    nodes = len(dep_ptr) - 1
    level = np.zeros(nodes, dtype=np.int64)
    for i in range(nodes):
        for k in range(dep_ptr[i], dep_ptr[i + 1]):
            level[i] = max(level[i], level[dep[k]] + 1)
    return level
