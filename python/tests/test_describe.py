"""A model that the caller describes is the model that was opened."""

from typing import Any

import numpy
import pytest

import pleiades
from conftest import TINY, read_tensors

GEOMETRY = pleiades.Geometry(
    vocab_size=512,
    eos_token_id=7,
    hidden=64,
    stream_count=4,
    embed_dim=64,
    ngram_vocab_size_base=2000,
)


def layer_weights(model: pleiades.Model, layer: int, in_memory: bool) -> pleiades.LayerWeights:
    tensors: dict[str, Any] = {}
    for file in TINY.glob("*.safetensors"):
        tensors |= read_tensors(file)
    prefix = f"model.layers.{layer}.ple."
    shards = []
    for shard in model.shards(layer):
        place = {"file": shard.file, "offset": shard.offset}
        if in_memory:
            place = {"data": numpy.fromfile(shard.file, numpy.uint8), "offset": shard.offset}
        shards.append(
            pleiades.Shard(row_begin=shard.row_begin, row_count=shard.row_count, **place)
        )
    names = ("key_proj", "value_proj", "norm_key", "norm_query", "norm_conv", "conv1d")
    weights = dict(zip(("key", "value", "norm_key", "norm_query", "norm_conv", "conv"), names))
    return pleiades.LayerWeights(
        layer_index=layer,
        shards=shards,
        **{field: tensors[f"{prefix}{name}.weight"] for field, name in weights.items()},
    )


@pytest.mark.parametrize("in_memory", [False, True])
def test_described_is_opened(model: pleiades.Model, golden: dict[str, Any], in_memory: bool) -> None:
    described = pleiades.Model.describe(
        GEOMETRY, [layer_weights(model, layer, in_memory) for layer in (0, 2)]
    )
    outputs = []
    for source in (model, described):
        engine = pleiades.Engine(source, thread_count=1)
        step = pleiades.Step(engine)
        step.stage(pleiades.Sequence(engine), golden["input_ids"][0])
        added = numpy.empty_like(golden["layer2.out"][0])
        step.run(2, golden["layer2.hidden_in"][0], added, mode="delta")
        outputs.append(added)
    numpy.testing.assert_array_equal(outputs[0], outputs[1])


def test_a_weight_of_the_wrong_size_is_refused(model: pleiades.Model) -> None:
    layers = [layer_weights(model, layer, False) for layer in (0, 2)]
    with pytest.raises(pleiades.InvalidArgument, match="key must be bfloat16 of 16384 elements"):
        pleiades.Model.describe(
            GEOMETRY, [pleiades.LayerWeights(**{**vars(layers[0]), "key": layers[0].value})]
        )


def test_rows_beyond_their_data_are_refused(model: pleiades.Model) -> None:
    layer = layer_weights(model, 0, True)
    shard = layer.shards[-1]
    assert isinstance(shard.data, numpy.ndarray)
    end = shard.offset + 8 * shard.row_count
    cases = [(shard.data[: end - 1], shard.offset), (shard.data[:end], shard.data.size + 1)]
    for data, offset in cases:
        short = pleiades.Shard(**{**vars(shard), "data": data, "offset": offset})
        shards = [*layer.shards[:-1], short]
        with pytest.raises(pleiades.InvalidArgument, match="bytes, too few for"):
            pleiades.Model.describe(
                GEOMETRY, [pleiades.LayerWeights(**{**vars(layer), "shards": shards})]
            )
