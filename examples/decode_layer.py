"""A decode step of 61 layers at EP320: two micro-batches hide each other's communication.

Each of 320 dies has 96 tokens. Dispatch and combine are timed by the model of the fused operators
for half of them and for all of them; computing times are given (assumed: change them). Prints:

    one batch of 96 tokens a die: 42.816 ms for 61 layers, the longest lane 26.840 ms
      dispatch  hidden  0.000 ms, exposed  8.745 ms
      combine   hidden  0.000 ms, exposed  7.231 ms
    two micro-batches of 48: 30.928 ms for 61 layers, the longest lane 26.840 ms
      dispatch  hidden 10.723 ms, exposed  3.403 ms
      combine   hidden  7.865 ms, exposed  0.685 ms
    the second layer, in us from its first task on:
          0.0 + 150.0  batch 0  compute  attention
        150.0 +  10.0  batch 0  compute  gate
        160.0 + 115.8  batch 0  network  dispatch
        160.0 + 150.0  batch 1  compute  attention
        310.0 +  10.0  batch 1  compute  gate
        320.0 +  60.0  batch 0  compute  experts
        320.0 + 115.8  batch 1  network  dispatch
        435.8 +  70.1  batch 0  network  combine
        435.8 +  60.0  batch 1  compute  experts
        505.9 +  70.1  batch 1  network  combine
"""

from ubnet import load_fabric
from ubnet.collectives.decode_layer import Timeline, decode_layer, run_layers
from ubnet.collectives.moe_run import run_moe
from ubnet.place import place_ranks
from ubnet.units import PS_PER_US

RANKS, LAYERS, TOKENS = 320, 61, 96
ATTENTION_US, GATE_US, EXPERTS_US = 300, 20, 120
"""Given: what computing takes for a whole batch; half of it takes half (assumed)."""


def layers_of(batches: int) -> Timeline:
    """Run all layers with the tokens of a die in so many micro-batches."""
    fabric = load_fabric("cloudmatrix384")
    places = place_ranks(fabric, RANKS)
    dispatch, combine = (
        run_moe(op, fabric, places, tokens=TOKENS // batches, transport="aiv", real=False)
        for op in ("dispatch", "combine")
    )
    part = PS_PER_US // batches
    tasks = decode_layer(
        ATTENTION_US * part,
        GATE_US * part,
        EXPERTS_US * part,
        dispatch.timing.time_ps,
        combine.timing.time_ps,
    )
    return run_layers(tasks, LAYERS, batches)


def main() -> None:
    """Compare one batch with two micro-batches."""
    for batches, name in ((1, "one batch of 96 tokens a die"), (2, "two micro-batches of 48")):
        line = layers_of(batches)
        longest = max(line.busy_ps().values())
        print(f"{name}: {line.time_ps / 1e9:.3f} ms for {LAYERS} layers", end="")
        print(f", the longest lane {longest / 1e9:.3f} ms")
        for operator, (hidden, exposed) in line.hidden_ps().items():
            print(f"  {operator:9} hidden {hidden / 1e9:6.3f} ms, exposed {exposed / 1e9:6.3f} ms")
    print("the second layer, in us from its first task on:")
    second = [s for s in line.slices if s.layer == 1]
    for s in second:
        begin = (s.start_ps - second[0].start_ps) / PS_PER_US
        length = s.task.duration_ps / PS_PER_US
        print(f"  {begin:7.1f} + {length:5.1f}  batch {s.batch}  {s.task.lane:7}  {s.task.name}")


if __name__ == "__main__":
    main()
