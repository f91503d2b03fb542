"""What an operation of a schedule can be and which buffers it can touch."""

COPY, REDUCE, REDUCE_LEFT, JOIN = 0, 1, 2, 3
KINDS = ("copy", "reduce", "reduce-left", "join")

INPUT, OUTPUT, SCRATCH = 0, 1, 2
BUFFERS = ("input", "output", "scratch")
