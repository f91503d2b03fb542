"""A serving simulator asks ubnet: a first estimate, then contention, then who is the hot spot.

A scheduler may take `ubnet.transfer_time` to choose where a request decodes, submit the transfer
to a `Carrier`, go on with its own events, and poll. `serve` is a whole simulator of that kind.
Prints:

    one prompt of 4096 tokens, alone: 11.75 ms
    three from one die, a millisecond apart: 32.7 ms for the quickest, 33.7 ms for the slowest
    500 requests, mapping spread: transfer 12.1 ms on average, busiest source node00.npu0.die0 2.0 %
    500 requests, mapping first: transfer 12.5 ms on average, busiest source node00.npu0.die0 23.6 %
    a prompt for each of 320 decode ranks: 129 ms spread, 3758 ms from the first rank
    decode dispatch beside KV on the RDMA plane: +0.0%, beside KV on UB: +9%
"""

import numpy as np

from ubnet import load_fabric, transfer_time
from ubnet.kv import (
    DEEPSEEK_R1,
    Carrier,
    Deployment,
    burst,
    dispatch_beside_kv,
    poisson_requests,
    serve,
)


def main() -> None:
    """Print the figures of the docstring."""
    fabric = load_fabric("cloudmatrix384")
    nbytes = DEEPSEEK_R1.prompt_bytes(4096)
    alone = transfer_time(0, 400, nbytes, transport="roce", fabric=fabric)
    print(f"one prompt of 4096 tokens, alone: {alone / 1e9:.2f} ms")

    carrier = Carrier(fabric, poll_ps=0)
    jobs = [carrier.submit(0, 400 + i, nbytes, start_ps=i * 10**9) for i in range(3)]
    carrier.run()
    ends = sorted(job.end_ps - job.start_ps for job in jobs)
    print(
        f"three from one die, a millisecond apart: {ends[0] / 1e9:.1f} ms for the quickest, "
        f"{ends[-1] / 1e9:.1f} ms for the slowest"
    )

    requests = poisson_requests(500, 60.0, np.random.default_rng(1))
    sites = {mapping: Deployment(fabric, mapping=mapping) for mapping in ("spread", "first")}
    for mapping, site in sites.items():
        report = serve(site, requests)
        hot = report.source_loads()[0]
        print(
            f"500 requests, mapping {mapping}: transfer {report.transfer_us.mean() / 1e3:.1f} ms "
            f"on average, busiest source {hot.name} {100 * hot.busy:.1f} %"
        )

    spread, first = (burst(site).time_ps / 1e9 for site in sites.values())
    print(
        f"a prompt for each of 320 decode ranks: {spread:.0f} ms spread, {first:.0f} ms from the "
        "first rank"
    )
    alone_us, rdma, ub = (
        dispatch_beside_kv(sites["spread"], transport=name, sharing="fifo").time_ps / 1e6
        for name in (None, "roce", "sdma")
    )
    print(
        f"decode dispatch beside KV on the RDMA plane: +{rdma / alone_us - 1:.1%}, beside KV "
        f"on UB: +{ub / alone_us - 1:.0%}"
    )


if __name__ == "__main__":
    main()
