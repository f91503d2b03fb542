"""A simulator with an event loop of its own asks ubnet when its transfers end.

Three requests finish prefill at times that the simulator knows; the KV cache of each then goes to
a decode die over the RDMA plane, and decode starts when it is there. Two of them leave the same
die, so they share its network card. Prints:

     1.000 ms  request 0: prefill done, 2048 tokens leave node00.npu0.die0
     3.000 ms  request 1: prefill done, 4096 tokens leave node00.npu0.die0
     4.000 ms  request 2: prefill done, 4096 tokens leave node00.npu1.die0
    10.750 ms  request 0: decode starts
    15.750 ms  request 2: decode starts
    18.622 ms  request 1: decode starts
"""

import heapq

from ubnet import FlowSim, load_fabric
from ubnet.kv import DEEPSEEK_R1, BlockList, Move, post_moves

MS = 10**9
REQUESTS = [  # prefill ends at (ps), tokens, prefill die, decode die
    (1 * MS, 2048, "node00.npu0.die0", "node10.npu0.die0"),
    (3 * MS, 4096, "node00.npu0.die0", "node11.npu0.die0"),
    (4 * MS, 4096, "node00.npu1.die0", "node12.npu0.die0"),
]


def main() -> None:
    """Go from event to event, whether it is the simulator's own or the fabric's."""
    fabric = load_fabric("cloudmatrix384")
    network = FlowSim(fabric.capacity)
    agenda = [(end_ps, number) for number, (end_ps, *_) in enumerate(REQUESTS)]
    heapq.heapify(agenda)
    moving: dict[int, int] = {}  # flow -> request
    while agenda or moving:
        now_ps = min([end_ps for end_ps, _ in agenda[:1]] + fabric_event(network))
        network.run_until(now_ps)
        for flow in [flow for flow in moving if network.finish_ps[flow] >= 0]:
            say(now_ps, moving.pop(flow), "decode starts")
        while agenda and agenda[0][0] == now_ps:
            number = heapq.heappop(agenda)[1]
            _, tokens, src, dst = REQUESTS[number]
            cache = BlockList([(0, 0, DEEPSEEK_R1.prompt_bytes(tokens))])
            (flow,) = post_moves(network, fabric, [Move(src, dst, cache)], transport="roce")
            moving[int(flow)] = number
            say(now_ps, number, f"prefill done, {tokens} tokens leave {src}")


def fabric_event(network: FlowSim) -> list[int]:
    """Return the time of the fabric's next event, an empty list where it has none."""
    next_ps = network.next_event()
    return [] if next_ps is None else [next_ps]


def say(now_ps: int, request: int, what: str) -> None:
    """Print a line of the log."""
    print(f"{now_ps / MS:6.3f} ms  request {request}: {what}")


if __name__ == "__main__":
    main()
