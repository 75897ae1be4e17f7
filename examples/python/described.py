"""An engine with its own loader describes the model. usage: described.py CHECKPOINT

The checkpoint stands for what the loader read: here the tensors are taken from it by hand."""

import json
import sys
from pathlib import Path

import numpy

import pleiades

folder = Path(sys.argv[1])
config = json.loads((folder / "config.json").read_text())


def tensors():
    """(name, file, offset, shape) of every tensor."""
    for file in sorted(folder.glob("*.safetensors")):
        raw = file.read_bytes()
        header_bytes = int.from_bytes(raw[:8], "little")
        for name, entry in json.loads(raw[8 : 8 + header_bytes]).items():
            if name != "__metadata__":
                yield name, file, 8 + header_bytes + entry["data_offsets"][0], entry["shape"]


found = {name: place for name, *place in tensors()}


def weights(name):
    """bfloat16 bits of a tensor."""
    file, offset, shape = found[name]
    bits = numpy.fromfile(file, numpy.uint16, int(numpy.prod(shape)), offset=offset)
    return bits.reshape(shape)


def layer_weights(layer):
    """One layer; its table stays where it is."""
    prefix = f"model.layers.{layer}.ple."
    shards, row_begin = [], 0
    for number in range(config["split_ngram_parts"]):
        place = found[f"{prefix}ple_embedding.ngram_embedding.shard_{number}.weight"]
        file, offset, (row_count, _) = place
        shards.append(
            pleiades.Shard(file=file, offset=offset, row_begin=row_begin, row_count=row_count)
        )
        row_begin += row_count
    return pleiades.LayerWeights(
        layer_index=layer,
        shards=shards,
        key=weights(f"{prefix}key_proj.weight"),
        value=weights(f"{prefix}value_proj.weight"),
        norm_key=weights(f"{prefix}norm_key.weight"),
        norm_query=weights(f"{prefix}norm_query.weight"),
        norm_conv=weights(f"{prefix}norm_conv.weight"),
        conv=weights(f"{prefix}conv1d.weight"),
    )


geometry = pleiades.Geometry(
    vocab_size=config["vocab_size"],
    eos_token_id=config["eos_token_id"],
    hidden=config["hidden_size"],
    stream_count=config["hc_count"],
    embed_dim=config["ple_embed_dim"],
    ngram_size=config["ngram_size"],
    heads_per_ngram=config["heads_per_ngram"],
    ngram_vocab_size_base=config["ngram_vocab_size_base"],
    row_count_divisor=config["make_ngram_vocab_size_divisible_by"],
    seed=config["seed"],
)
layers = [layer_id - 1 for layer_id in config["ple_layer_ids"]]
described = pleiades.Model.describe(geometry, [layer_weights(layer) for layer in layers])
opened = pleiades.Model.open(folder)

results = []
for model in (described, opened):
    engine = pleiades.Engine(model)
    step = pleiades.Step(engine)
    highway = numpy.linspace(-1, 1, 12 * described.layers[0].input_elements, dtype=numpy.float32)
    step.stage(pleiades.Sequence(engine), list(range(3, 15)))
    step.run(layers[0], highway)
    results.append(highway)
assert numpy.array_equal(*results)
print("the described model gives the bits of the opened one")
