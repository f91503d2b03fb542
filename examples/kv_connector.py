"""A class with the method names of vLLM's KVConnectorBase_V1, on ubnet's fabric and clock.

It shows where each call of a serving engine goes; vLLM itself is not needed. A prefill worker
writes the pages of a prompt into the cache of a decode worker, layer by layer while it computes;
the decode worker waits for a layer just before it needs it. Prints:

    scheduler: 64 tokens of request-7 are in the other worker's cache
        0.000 us  prefill computes layer 0
      300.000 us  prefill computes layer 1
      600.000 us  prefill computes layer 2
      900.000 us  prefill computes layer 3
     1200.000 us  prefill has computed
     1209.399 us  prefill: all pages of request-7 are sent
     1209.399 us  decode: layers 0 to 3 are here, 0 bytes wrong
    prefill gives back the pages of ['request-7']; decode has got ['request-7']
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ubnet import load_fabric
from ubnet.kv import Agent, Carrier
from ubnet.kv.nixl_handle import TransferHandle

PAGE_TOKENS = 16
LAYERS = 4
LAYER_PS = 300_000_000
TOKEN_BYTES = 1152


@dataclass
class LoadMeta:
    """What the scheduler tells the workers: request, its pages here, its pages there."""

    requests: list[tuple[str, list[int], list[int]]] = field(default_factory=list)


class UbnetConnector:
    """Moves KV between two workers; one instance a worker, as vLLM does it.

    Parameters
    ----------
    carrier : Carrier
        The fabric and its clock, shared by all workers.
    name, endpoint : str
        The worker, and the die that it runs on.
    peer : str
        The worker at the other end.
    """

    def __init__(self, carrier: Carrier, name: str, endpoint: str, peer: str) -> None:
        self.carrier = carrier
        self.agent = Agent(name, carrier, endpoint)
        self.peer = peer
        self.meta = LoadMeta()
        self.caches: dict[str, Any] = {}
        self.peer_caches: dict[str, Any] = {}
        self.open: list[tuple[str, TransferHandle]] = []
        self.arrived: set[tuple[str, str]] = set()
        self.received: set[str] = set()

    # Scheduler side

    def get_num_new_matched_tokens(
        self, request: str, num_computed_tokens: int
    ) -> tuple[int, bool]:
        """Return how many more tokens the other worker has, and that they come by and by."""
        known = {name: pages for name, pages, _ in self.meta.requests}
        have = len(known.get(request, [])) * PAGE_TOKENS
        return max(have - num_computed_tokens, 0), True

    def update_state_after_alloc(
        self, request: str, blocks: tuple[list[int], list[int]], num_external_tokens: int
    ) -> None:
        """Note which pages a request got on this side and on the other."""
        if num_external_tokens:
            self.meta.requests.append((request, *blocks))

    def build_connector_meta(self, scheduler_output: Any) -> LoadMeta:
        """Return what the workers are to do in this step."""
        return self.meta

    def request_finished(self, request: str, block_ids: list[int]) -> tuple[bool, None]:
        """Return whether the pages must stay until `get_finished` names the request."""
        return any(name == request for name, _ in self.open), None

    # Worker side

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        """Register the memory of every layer: an array of shape (pages, bytes of a page)."""
        self.caches = kv_caches
        self.agent.register_memory(list(kv_caches.values()))

    def bind_connector_metadata(self, connector_metadata: LoadMeta) -> None:
        """Take what the scheduler says."""
        self.meta = connector_metadata

    def clear_connector_metadata(self) -> None:
        """Forget it after the step."""
        self.meta = LoadMeta()

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """Nothing to start: the other side pushes."""

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Wait until a layer of all requests of this step is here."""
        wanted = {(name, layer_name) for name, *_ in self.meta.requests}
        while not wanted <= self.arrived:
            self._take_notes()
            if not wanted <= self.arrived:
                self.carrier.advance(self.carrier.now_ps + 1_000_000)
        if layer_name == list(self.caches)[-1]:
            self.received |= {name for name, _ in wanted}

    def save_kv_layer(
        self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any
    ) -> None:
        """Start to write the pages of a layer into the other worker's cache."""
        for name, pages, there in self.meta.requests:
            size = kv_layer[0].nbytes
            local, remote = (
                [(cache.ctypes.data + page * size, size) for page in list_]
                for cache, list_ in ((kv_layer, pages), (self.peer_caches[layer_name], there))
            )
            note = f"{name}/{layer_name}".encode()
            handle = self.agent.initialize_xfer("WRITE", local, remote, self.peer, note)
            self.agent.transfer(handle)
            self.open.append((name, handle))

    def wait_for_save(self) -> None:
        """Wait until everything that was started has been written."""
        for name, handle in self.open:
            while (state := self.agent.check_xfer_state(handle)) == "PROC":
                pass
            if state != "DONE":
                raise RuntimeError(f"{name}: {self.agent.get_xfer_error(handle)}")

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        """Return whose pages may be given back, and whose have all been received."""
        running = {
            name for name, handle in self.open if self.agent.check_xfer_state(handle) == "PROC"
        }
        sent = {name for name, _ in self.open} & finished_req_ids - running
        self.open = [(name, handle) for name, handle in self.open if name not in sent]
        received, self.received = self.received, set()
        return sent or None, received or None

    def _take_notes(self) -> None:
        for notes in self.agent.get_new_notifs().values():
            for note in notes:
                name, _, layer = note.decode().partition("/")
                self.arrived.add((name, layer))


def main() -> None:
    """Bring one prompt from a prefill worker to a decode worker."""
    carrier = Carrier(load_fabric("cloudmatrix384"), poll_ps=1_000)
    prefill = UbnetConnector(carrier, "prefill", "node00.npu0.die0", "decode")
    decode = UbnetConnector(carrier, "decode", "node20.npu3.die1", "prefill")
    names = [f"layers.{i}" for i in range(LAYERS)]
    for worker in (prefill, decode):
        pages = {name: np.zeros((32, PAGE_TOKENS * TOKEN_BYTES), np.uint8) for name in names}
        worker.register_kv_caches(pages)
    prefill.peer_caches, decode.peer_caches = decode.caches, prefill.caches
    prefill.agent.add_remote_agent(decode.agent.get_agent_metadata())

    here, there = [3, 4, 9, 17], [8, 1, 2, 30]
    decode.update_state_after_alloc("request-7", (here, there), num_external_tokens=64)
    tokens, _ = decode.get_num_new_matched_tokens("request-7", 0)
    print(f"scheduler: {tokens} tokens of request-7 are in the other worker's cache")
    meta = decode.build_connector_meta(None)
    for worker in (prefill, decode):
        worker.bind_connector_metadata(meta)

    decode.start_load_kv(None)
    rng = np.random.default_rng(1)
    for number, name in enumerate(names):
        say(carrier, f"prefill computes layer {number}")
        carrier.run_until(carrier.now_ps + LAYER_PS)
        prefill.caches[name][here] = rng.integers(0, 256, (4, PAGE_TOKENS * TOKEN_BYTES))
        prefill.save_kv_layer(name, prefill.caches[name], None)
    say(carrier, "prefill has computed")
    prefill.wait_for_save()
    say(carrier, "prefill: all pages of request-7 are sent")
    for name in names:
        decode.wait_for_layer_load(name)
    wrong = sum(int((prefill.caches[n][here] != decode.caches[n][there]).sum()) for n in names)
    say(carrier, f"decode: layers 0 to {LAYERS - 1} are here, {wrong} bytes wrong")
    sent, _ = prefill.get_finished({"request-7"})
    _, received = decode.get_finished(set())
    print(f"prefill gives back the pages of {sorted(sent)}; decode has got {sorted(received)}")


def say(carrier: Carrier, what: str) -> None:
    """Print a line with the virtual time."""
    print(f"{carrier.now_ps / 1e6:9.3f} us  {what}")


if __name__ == "__main__":
    main()
