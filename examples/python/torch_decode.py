"""A decode loop of a torch engine, compiled; on a GPU also as a CUDA graph.

usage: torch_decode.py CHECKPOINT [cpu|cuda]"""

import sys

import torch

import pleiades
import pleiades.torch_op

device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
model = pleiades.Model.open(sys.argv[1])
layer = model.layers[0]
layer_index = layer.layer_index
engine = pleiades.Engine(model, device=device, layers=[layer_index])
step = pleiades.Step(engine, tokens_max=4, sequences_max=4)
number = pleiades.torch_op.register(step)
highway = torch.zeros(4, layer.input_elements, device=device)


def decoder():
    """The layers around the memory would be here as well."""
    highway.fill_(0.5)
    torch.ops.pleiades.update_(highway, number, layer_index)


def decode(forward, token_count=16):
    """All highways of a decode loop of four sequences."""
    sequences = [pleiades.Sequence(engine) for _ in range(4)]
    highways = []
    for at in range(token_count):
        step.stage(sequences, [(at * 37 + row * 101) % 500 for row in range(4)])
        forward()
        step.commit()
        highways.append(highway.cpu().clone())
    return torch.stack(highways)


def captured():
    """The decoder as a CUDA graph: recorded once, staged, and not consumed."""
    step.stage([pleiades.Sequence(engine) for _ in range(4)], [0, 0, 0, 0])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        decoder()
    step.discard()

    def replay():
        step.prepare(torch.cuda.current_stream())
        graph.replay()

    return replay


eager = decode(decoder)
assert torch.equal(decode(torch.compile(decoder, fullgraph=True, backend="aot_eager")), eager)
if device != "cpu":
    assert torch.equal(decode(captured()), eager)
print("compiled decoding gives the bits of eager decoding on", device)
