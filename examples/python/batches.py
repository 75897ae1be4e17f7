"""Prefill, chunked prefill, decode, and a batch that mixes them. usage: batches.py CHECKPOINT"""

import sys

import numpy

import pleiades

model = pleiades.Model.open(sys.argv[1])
engine = pleiades.Engine(model, cache_bytes=model.info.table_bytes // 10, arena="cached")
layer = model.layers[0]
step = pleiades.Step(engine, tokens_max=64, sequences_max=8)
tokens = numpy.arange(40, dtype=numpy.int32) * 37 % 500
text = numpy.random.default_rng(5).normal(size=(40, layer.input_elements)).astype(numpy.float32)


def forward(sequences, counts, ids, highway):
    """One step; returns the highway after the layer."""
    out = highway.copy()
    step.stage(sequences, ids, counts)  # returns while the rows are being read
    step.run(layer.layer_index, out)  # adds into the highway, in place
    step.commit()
    return out


whole = pleiades.Sequence(engine)
expected = forward(whole, [40], tokens, text)

# In chunks, then token by token.
sequence = pleiades.Sequence(engine)
parts = [forward(sequence, [16], tokens[i : i + 16], text[i : i + 16]) for i in (0, 16)]
parts += [forward(sequence, [1], tokens[i : i + 1], text[i : i + 1]) for i in range(32, 40)]
assert numpy.array_equal(numpy.concatenate(parts), expected)

# Continuous batching: a new sequence prefills while an old one decodes.
arriving = pleiades.Sequence(engine)
mixed = forward(
    [arriving, whole],
    [20, 1],
    numpy.concatenate([tokens[:20], tokens[:1]]),
    numpy.concatenate([text[:20], text[:1]]),
)
assert numpy.array_equal(mixed[:20], expected[:20])
assert numpy.array_equal(mixed[20:], forward(sequence, [1], tokens[:1], text[:1]))

# Speculative decoding: three tokens are staged, the first one is accepted.
forward_to = arriving.position
step.stage(arriving, [1, 2, 3])
step.run(layer.layer_index, text[:3].copy())
step.commit([1])
assert arriving.position == forward_to + 1

try:
    step.stage(whole, list(range(100)))
except pleiades.InvalidArgument as refusal:
    print(refusal)
print(engine.metrics)
