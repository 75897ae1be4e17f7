"""What one decode step costs more of the host's time through Python than through C.

usage: decode_step.py C_BENCH CHECKPOINT [STEPS [DEVICE]]

Rounds of C and Python take turns; the best round of each counts, because what is measured is host
time and the machine may be shared. A GPU is waited for between steps. Arrays: numpy on a CPU, and
torch where it is there."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy

import pleiades

ROUNDS = 7


def python_round(
    model: pleiades.Model, device: str, steps: int, highway: Any, wait: Callable[[], None]
) -> float:
    """Median microseconds of a step."""
    engine = pleiades.Engine(model, device=device, arena="resident", thread_count=1)
    sequence, step = pleiades.Sequence(engine), pleiades.Step(engine)
    layers = [layer.layer_index for layer in model.layers]
    vocab_size = model.info.vocab_size
    times = []
    for i in range(steps):
        begin = time.perf_counter_ns()
        step.stage(sequence, i * 37 % vocab_size)
        for layer in layers:
            step.run(layer, highway)
        step.commit()
        times.append(time.perf_counter_ns() - begin)
        wait()
    return statistics.median(times) / 1e3


def c_round(bench: str, checkpoint: str, device: str, steps: int) -> float:
    """The same through C."""
    command = [bench, checkpoint, str(steps), device]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0])


def main() -> None:
    """Prints one line for each kind of array."""
    bench, checkpoint = sys.argv[1:3]
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 3000
    model = pleiades.Model.open(checkpoint)
    device = sys.argv[4] if len(sys.argv) > 4 else "cpu"
    elements = model.layers[0].input_elements
    arrays: dict[str, Any] = {}
    wait: Callable[[], None] = lambda: None
    if device == "cpu":
        arrays["numpy"] = numpy.zeros(elements, numpy.float32)
    if find_spec("torch"):
        import torch

        arrays["torch"] = torch.zeros(elements, device=device)
        if device != "cpu":
            wait = torch.cuda.synchronize
    for name, highway in arrays.items():
        through_c, through_python = [], []
        for _ in range(ROUNDS):
            through_c.append(c_round(bench, checkpoint, device, steps))
            through_python.append(python_round(model, device, steps, highway, wait))
        best_c, best_python = min(through_c), min(through_python)
        print(
            f"{name} on {device}: C {best_c:.2f} us, Python {best_python:.2f} us, "
            f"{best_python - best_c:+.2f} us a step of {len(model.layers)} layers"
        )


if __name__ == "__main__":
    main()
