"""Which key leads to which block, and whose the namespaces are."""

from collections.abc import Callable

from ubnet.errors import AccessRefused, OptionError, did_you_mean

from .block import Block, Tier


class Directory:
    """What the nodes of a pool know of its blocks; every node has all of it.

    Parameters
    ----------
    forget : callable
        Called with a block whose last key has gone.

    Attributes
    ----------
    blocks : dict of bytes to Block
        The blocks by their content.
    """

    def __init__(self, forget: Callable[[Block], None]) -> None:
        self.blocks: dict[bytes, Block] = {}
        self._forget = forget
        self._keys: dict[tuple[str, bytes], bytes] = {}
        self._tenants: dict[str, str] = {}

    def create_namespace(self, name: str, tenant: str) -> None:
        """Make a namespace that belongs to a tenant, who alone may put and get in it."""
        if name in self._tenants:
            raise OptionError(f"namespace {name} exists already: choose another name")
        self._tenants[name] = tenant

    def check_access(self, namespace: str, tenant: str) -> None:
        """Raise `AccessRefused` where a namespace is not the tenant's."""
        if namespace not in self._tenants:
            mine = [name for name, owner in self._tenants.items() if owner == tenant]
            raise OptionError(f"no namespace {namespace!r}; {did_you_mean(namespace, mine)}")
        if self._tenants[namespace] != tenant:
            raise AccessRefused(
                f"tenant {tenant} may not use namespace {namespace!r}: it belongs to another one"
            )

    def find(self, namespace: str, key: bytes) -> Block | None:
        """Return the block of a key, None where there is none."""
        content = self._keys.get((namespace, key))
        return None if content is None else self.blocks[content]

    def whole(self, content: bytes) -> Block | None:
        """Return the block of a content, None where there is none or it is lost."""
        block = self.blocks.get(content)
        return None if block is None or block.tier is Tier.LOST else block

    def enter(self, namespace: str, key: bytes, block: Block) -> None:
        """Let a key lead to a block, and no longer to what it led to before."""
        before = self._keys.get((namespace, key))
        if before == block.content and self.blocks[before] is block:
            return
        if before is not None:
            self._unname(self.blocks[before])
        self._keys[namespace, key] = block.content
        # A block that was lost gives its other keys to the one that takes its place.
        gone = self.blocks.get(block.content)
        block.names += 1 + (gone.names if gone is not None and gone is not block else 0)
        self.blocks[block.content] = block

    def delete(self, namespace: str, key: bytes) -> bool:
        """Forget a key; its block goes with the last one that leads to it."""
        content = self._keys.pop((namespace, key), None)
        if content is None:
            return False
        self._unname(self.blocks[content])
        return True

    def drop(self, block: Block) -> None:
        """Forget the keys of a block that no tier keeps any more."""
        block.names = 0
        del self.blocks[block.content]
        for name in [name for name, content in self._keys.items() if content == block.content]:
            del self._keys[name]

    def _unname(self, block: Block) -> None:
        block.names -= 1
        if block.names == 0:
            del self.blocks[block.content]
            self._forget(block)
