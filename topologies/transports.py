"""The five ways in which a CloudMatrix moves bytes, from the table of constants."""

from dataclasses import replace
from math import exp
from operator import index

from ubnet.errors import OptionError
from ubnet.fabric import FAR, NODE
from ubnet.transport import READ, WRITE, Transport

from . import constants as c

UB_ENGINES = {WRITE: "write", READ: "read"}
NIC_ENGINES = {WRITE: "nic_write", READ: "nic_read"}

# What a flow takes of its engine: P Table 1, so that mixed flows add up.
UB_SHARES = {
    (WRITE, "die", FAR): c.WRITE_RATE.value / c.WRITE_FAR_RATE.value,
    (WRITE, "cpu", NODE): c.WRITE_RATE.value / c.WRITE_CPU_RATE.value,
    (WRITE, "cpu", FAR): c.WRITE_RATE.value / c.WRITE_CPU_FAR_RATE.value,
    (READ, "die", FAR): c.READ_RATE.value / c.READ_FAR_RATE.value,
    (READ, "cpu", NODE): c.READ_RATE.value / c.READ_CPU_RATE.value,
    (READ, "cpu", FAR): c.READ_RATE.value / c.READ_CPU_FAR_RATE.value,
}


def aiv_fraction(cores: int) -> float:
    """Return the part of the UB peak that `cores` vector cores draw [S].

    >>> f"{aiv_fraction(48):.2f} {aiv_fraction(24):.2f} {aiv_fraction(8):.2f}"
    '1.00 0.95 0.63'

    Raises
    ------
    OptionError
        If a die has no such number of vector cores.
    """
    most = int(c.AIV_CORES)
    cores = whole_number("aiv_cores", cores, most, "the vector cores of a die that it may use:")
    scale = c.AIV_CORE_SCALE.value
    return (1 - exp(-cores / scale)) / (1 - exp(-most / scale))


def whole_number(option: str, value: int, most: int, what: str) -> int:
    """Return an option's value, a whole number from 1 to `most`, or raise `OptionError`."""
    try:
        number = index(value)
    except TypeError:
        number = 0
    if not 1 <= number <= most:
        raise OptionError(f"{option} is {value!r}: {what} 1 to {most}")
    return number


def roce_wire_share() -> float:
    """Return the bytes on the wire per byte of payload."""
    return c.ROCE_PACKET.value / c.ROCE_PAYLOAD.value


def cloudmatrix_transports(aiv_cores: int, stream_rate: float) -> tuple[Transport, ...]:
    """Return AIV-Direct, SDMA, URMA, RoCE and VPC, in this order.

    Parameters
    ----------
    aiv_cores : int
        Vector cores that AIV-Direct may occupy, 1 to 48.
    stream_rate : float
        The largest rate of one VPC flow in bytes/s.
    """
    if not isinstance(stream_rate, int | float) or not stream_rate > 0:
        raise OptionError(f"vpc_stream_rate is {stream_rate!r}: give bytes/s above 0, such as 5e9")
    return (
        _aiv(aiv_cores),
        _dma("sdma", c.SDMA_STARTUP),
        # URMA's start-up is assumed, and what it is for is computing meanwhile: whoever wants that
        # asks for it, and `auto` stays with transports whose start-ups stand in a source.
        replace(_dma("urma", c.URMA_STARTUP), automatic=False),
        Transport(
            name="roce",
            plane="rdma",
            startup_ps=_startups(c.ROCE_STARTUP),
            engine=NIC_ENGINES,
            post_ps=int(c.POST),
            spread=c.SPREAD.value,
            wire_share=roce_wire_share(),
            sources=_sources(startup_ps=c.ROCE_STARTUP, wire_share=c.ROCE_PACKET),
        ),
        Transport(
            name="vpc",
            plane="vpc",
            startup_ps=_startups(c.VPC_STARTUP),
            rate_cap=float(stream_rate),
            sources=_sources(startup_ps=c.VPC_STARTUP, rate_cap=c.STREAM_RATE),
        ),
    )


def _aiv(cores: int) -> Transport:
    return Transport(
        name="aiv",
        plane="ub",
        startup_ps={
            (WRITE, "die"): int(c.AIV_WRITE),
            (READ, "die"): int(c.AIV_READ),
            (WRITE, "cpu"): int(c.AIV_WRITE_CPU),
            (READ, "cpu"): int(c.AIV_READ_CPU),
        },
        package_startup_ps=0,
        engine=UB_ENGINES,
        share=UB_SHARES,
        post_ps=int(c.POST),
        spread=c.SPREAD.value,
        engine_fraction=aiv_fraction(cores),
        sources=_sources(
            startup_ps=c.AIV_WRITE, package_startup_ps=c.PACKAGE_LATENCY, share=c.WRITE_FAR_RATE,
            engine_fraction=c.AIV_CORE_SCALE,
        ),
    )  # fmt: skip


def _dma(name: str, startup: c.Constant) -> Transport:
    """Return a transport whose DMA engine moves: AIV-Direct's plateau, another start-up."""
    return Transport(
        name=name,
        plane="ub",
        startup_ps=_startups(startup),
        package_startup_ps=int(startup),
        engine=UB_ENGINES,
        share=UB_SHARES,
        post_ps=int(c.POST),
        spread=c.SPREAD.value,
        sources=_sources(startup_ps=startup, share=c.WRITE_FAR_RATE),
    )


def _startups(startup: c.Constant) -> dict[tuple[str, str], int]:
    return {(WRITE, "*"): int(startup), (READ, "*"): int(startup)}


def _sources(**used: c.Constant) -> dict[str, str]:
    used = {**used, "post_ps": c.POST, "spread": c.SPREAD}
    return {name: f"{constant.source}: {constant.why}" for name, constant in used.items()}
