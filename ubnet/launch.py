"""Running ranks: `run` calls a function on every rank of a virtual supernode."""

from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any

from ubnet.errors import OptionError, did_you_mean

if TYPE_CHECKING:
    from ubnet.fabric import Fabric
    from ubnet.world import Result, World

DEFAULT_FABRIC = "cloudmatrix384"
RENDEZVOUS = ("read", "write")


def run(
    main: Callable[..., Any],
    ranks: int | None = None,
    fabric: "str | Fabric" = DEFAULT_FABRIC,
    place: str | Sequence[str] = "die",
    args: Sequence[Any] = (),
    **options: Any,
) -> "Result":
    """Call ``main(comm, *args)`` on every rank, in virtual time.

    Under mpirun the ranks are spread over its processes, and every process returns the same.

    Parameters
    ----------
    main : callable
        The program of a rank; ``comm`` is its COMM_WORLD, with mpi4py's methods.
    ranks : int, optional
        How many there are; by default one for each process of mpirun, or 1.
    fabric : str or Fabric
        What they sit on: a name of `ubnet.fabrics.fabric_names`, a TOML file, or a fabric.
    place : str or sequence of str
        Where they sit, as `ubnet.place.place_ranks` takes it.
    args : sequence
        Further arguments of `main`.
    **options
        As `make_world` takes them.

    Returns
    -------
    Result
        ``values`` of the ranks, ``time_ps``, ``digest``, ``report``.

    Examples
    --------
    >>> result = run(lambda comm: comm.allreduce(comm.rank), ranks=4)
    >>> result.values, result.time_ps > 0
    ([6, 6, 6, 6], True)
    """
    from ubnet.mpi import COMM_WORLD

    return make_world(ranks, fabric, place, **options).run(lambda rank: main(COMM_WORLD, *args))


def make_world(
    ranks: int | None = None,
    fabric: "str | Fabric" = DEFAULT_FABRIC,
    place: str | Sequence[str] = "die",
    *,
    paths: str | None = None,
    transport: str = "auto",
    eager_bytes: int | None = None,
    rendezvous: str = "read",
    compute: float | str = "free",
    shuffle: int | None = None,
    events: IO[str] | None = None,
) -> "World":
    """Return a world that is ready to run.

    Parameters
    ----------
    ranks, fabric, place
        As for `run`.
    paths : {"spray", "ecmp", "hash"}, optional
        How a flow uses parallel paths, where the fabric is given by name.
    transport : str
        How messages are moved: a transport's name, or ``auto``.
    eager_bytes : int, optional
        The largest message that is sent before its receive is known.
    rendezvous : {"read", "write"}
        Whether the receiver reads a larger one or the sender writes it.
    compute : {"free", "measured"} or float
        What a rank's own computing costs: nothing, the CPU time it takes, or so many times that.
    shuffle : int, optional
        A seed: the ranks of a round run in random order, which must change nothing.
    events : text file, optional
        Where the event lines are written.

    Raises
    ------
    UbnetError
        If an option is outside of what is allowed.
    """
    from ubnet.clock import ClockOptions
    from ubnet.fabric import Fabric
    from ubnet.fabrics import load_fabric
    from ubnet.protocol import EAGER_BYTES
    from ubnet.world import World, WorldOptions, check_ranks

    if rendezvous not in RENDEZVOUS:
        raise OptionError(f"rendezvous is {rendezvous!r}; {did_you_mean(rendezvous, RENDEZVOUS)}")
    for name, given in (("ranks", ranks), ("eager_bytes", eager_bytes), ("shuffle", shuffle)):
        if given is not None and not hasattr(given, "__index__"):
            raise OptionError(f"{name} is {given!r}; give a whole number, such as {name}=8")
    for name, given in (("eager_bytes", eager_bytes), ("shuffle", shuffle)):
        if given is not None and given < 0:
            raise OptionError(f"{name} is {given}; give 0 or more")
    if not isinstance(fabric, Fabric):
        fabric = load_fabric(fabric, **({} if paths is None else {"paths": paths}))
    elif paths is not None:
        raise OptionError("paths belongs to a fabric given by name; build yours with it")
    if transport != "auto":
        fabric.transport(transport)
    clock = ClockOptions(
        transport=transport,
        eager_bytes=EAGER_BYTES if eager_bytes is None else eager_bytes,
        rendezvous=rendezvous,
    )
    options = WorldOptions(
        clock=clock,
        compute_scale=compute_scale(compute),
        shuffle_seed=shuffle,
        events=events,
    )
    return World(fabric, check_ranks(ranks), place, options)


def compute_scale(compute: float | str) -> float:
    """Return the virtual seconds for each second that a rank really computes.

    >>> compute_scale("free"), compute_scale("measured"), compute_scale("measured:0.5")
    (0.0, 1.0, 0.5)
    """
    if compute == "free":
        return 0.0
    if compute == "measured":
        return 1.0
    text = str(compute).removeprefix("measured:")
    try:
        scale = float(text)
    except ValueError:
        scale = -1.0
    if not 0 <= scale < float("inf"):
        raise OptionError(f"compute is {compute!r}; give free, measured, or measured:2.5")
    return scale


def compute(seconds: float) -> None:
    """Let the running rank compute for so many seconds of virtual time."""
    from ubnet.rank import current

    current().compute(seconds)
