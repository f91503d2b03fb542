"""The DRAM that one CPU gives to the pool: blocks in order of their last use."""

from collections import OrderedDict

from ubnet.errors import CapacityExceeded

from .block import Block, Tier


class Shelf:
    """The blocks in the DRAM of one endpoint.

    Parameters
    ----------
    name : str
        The endpoint, for messages.
    capacity : int
        Bytes.

    Examples
    --------
    >>> shelf = Shelf("node00.cpu0", 10)
    >>> for name in (b"a", b"b"):
    ...     shelf.put(Block(name, 4, 0, None, 0, Tier.DRAM))
    >>> shelf.touch(b"a")
    >>> [block.content for block in shelf.make_room(4)], shelf.used
    ([b'b'], 4)
    """

    def __init__(self, name: str, capacity: int) -> None:
        self.name = name
        self.capacity = capacity
        self.used = 0
        self._blocks: OrderedDict[bytes, Block] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def put(self, block: Block) -> None:
        """Take a block in, as the one used last; room was made before."""
        self._blocks[block.content] = block
        self.used += block.nbytes

    def drop(self, block: Block) -> None:
        """Let a block go, if it is here."""
        if self._blocks.get(block.content) is block:
            del self._blocks[block.content]
            self.used -= block.nbytes

    def touch(self, content: bytes) -> None:
        """Note that a block was used."""
        if content in self._blocks:
            self._blocks.move_to_end(content)

    def blocks(self) -> list[Block]:
        """Return all blocks, the one used longest ago first."""
        return list(self._blocks.values())

    def make_room(self, nbytes: int) -> list[Block]:
        """Drop blocks, the one used longest ago first, until there is room; return them.

        Raises
        ------
        CapacityExceeded
            If there cannot be: it is too large, or all others are on their way. None is dropped.
        """
        free, chosen = self.capacity - self.used, []
        for block in self._blocks.values():
            if free >= nbytes:
                break
            if block.tier is Tier.DRAM:
                chosen.append(block)
                free += block.nbytes
        if free < nbytes:
            moving = self.used - sum(block.nbytes for block in chosen)
            raise CapacityExceeded(
                f"a block of {nbytes} bytes does not fit into the {self.capacity} bytes of DRAM "
                f"that {self.name} gives to the pool, {moving} of which hold blocks on their way; "
                "give more with dram_bytes"
            )
        for block in chosen:
            self.drop(block)
        return chosen
