"""A prefix cache: snapshots by the tokens before them. usage: prefix_cache.py CHECKPOINT"""

import sys

import numpy

import pleiades

BLOCK = 16

model = pleiades.Model.open(sys.argv[1])
layer = model.layers[0]
engine = pleiades.Engine(model, layers=[layer.layer_index])
step = pleiades.Step(engine)
blocks: dict[tuple[int, ...], bytes] = {}  # an engine keeps the KV blocks beside them


def highway_of(tokens, position):
    """What the layers before would leave: here, a function of token and position."""
    channels = numpy.arange(layer.input_elements)
    rows = [numpy.sin(token * 0.7 + position + i + channels) for i, token in enumerate(tokens)]
    return numpy.array(rows, numpy.float32)


def prefill(sequence, prompt):
    """Prefills what no block has; returns how many tokens were computed."""
    hit = max((n for n in range(0, len(prompt), BLOCK) if tuple(prompt[:n]) in blocks), default=0)
    if hit:
        sequence.restore(blocks[tuple(prompt[:hit])])
    for begin in range(hit, len(prompt), BLOCK):
        part = prompt[begin : begin + BLOCK]
        step.stage(sequence, part, positions=[begin])
        step.run(layer.layer_index, highway_of(part, begin))
        step.commit()
        if len(part) == BLOCK:
            blocks[tuple(prompt[: begin + BLOCK])] = sequence.snapshot()
    return len(prompt) - hit


system = [token % 500 for token in range(0, 640, 13)]
first, second = pleiades.Sequence(engine), pleiades.Sequence(engine)
print(prefill(first, [*system, 1, 2, 3]), "tokens computed for the first request")
computed = prefill(second, [*system, 9, 8, 7])
print(computed, "tokens computed for the second:", len(next(iter(blocks.values()))), "bytes a block")
assert computed == len(system) % BLOCK + 3

# The restored sequence is the one that computed everything.
fresh = pleiades.Sequence(engine)
blocks.clear()
prefill(fresh, [*system, 9, 8, 7])
assert fresh.snapshot("full") == second.snapshot("full")
