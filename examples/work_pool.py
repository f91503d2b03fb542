"""A pool of workers: rank 0 hands out tasks of uneven length to whoever is free.

Run it with `ubnet run -n 9 examples/work_pool.py`. It prints:

    60 tasks, 8 workers, all results right: True
    tasks of a worker: 4 to 11
    180.20 us; workers were busy 66.6 % of it
"""

import numpy as np
from mpi4py import MPI

import ubnet

TASKS = 60
READY, WORK, STOP = 1, 2, 3


def duration(task: int) -> float:
    """Return the seconds of a task: some take ten times as long as others."""
    return 5e-6 * (10 if task % 7 == 3 else 1 + task % 3)


def collatz(task: int) -> int:
    """Return the steps of a number down to 1: the work itself."""
    number, steps = 1000 + task, 0
    while number > 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        steps += 1
    return steps


def hand_out(comm: MPI.Intracomm) -> dict[int, int]:
    """Give a task to each worker that asks, and keep what it brings."""
    results: dict[int, int] = {}
    status = MPI.Status()
    waiting, task = comm.size - 1, 0
    while waiting:
        brought = comm.recv(source=MPI.ANY_SOURCE, tag=READY, status=status)
        if brought is not None:
            results[brought[0]] = brought[1]
        if task < TASKS:
            comm.send(task, status.source, WORK)
            task += 1
        else:
            comm.send(None, status.source, STOP)
            waiting -= 1
    return results


def work(comm: MPI.Intracomm) -> tuple[int, float]:
    """Ask for tasks until there are none; return how many there were, and their seconds."""
    status = MPI.Status()
    done, busy, brought = 0, 0.0, None
    while True:
        comm.send(brought, 0, READY)
        task = comm.recv(source=0, status=status)
        if status.tag == STOP:
            return done, busy
        ubnet.compute(duration(task))
        done, busy = done + 1, busy + duration(task)
        brought = (task, collatz(task))


def main() -> None:
    """Work off all tasks and say how evenly the workers were busy."""
    comm = MPI.COMM_WORLD
    begin = MPI.Wtime()
    if comm.rank == 0:
        results, mine = hand_out(comm), (0, 0.0)
    else:
        results, mine = {}, work(comm)
    lasted = comm.reduce(MPI.Wtime() - begin, op=MPI.MAX)
    shares = comm.gather(mine)
    if comm.rank == 0:
        counts, busy = np.array([n for n, _ in shares[1:]]), np.array([t for _, t in shares[1:]])
        right = results == {task: collatz(task) for task in range(TASKS)}
        print(f"{TASKS} tasks, {comm.size - 1} workers, all results right: {right}")
        print(f"tasks of a worker: {counts.min()} to {counts.max()}")
        print(f"{1e6 * lasted:.2f} us; workers were busy {100 * busy.mean() / lasted:.1f} % of it")


if __name__ == "__main__":
    main()
