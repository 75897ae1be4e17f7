"""The references of this folder against what the public references computed."""

import json
from pathlib import Path
from typing import Any

import numpy
import pytest

import checkpoints
import row_ids
from tensors import Array, Tensors, rounded

GOLDEN = Path(__file__).parents[1] / "data" / "golden"


def geometries(family: str) -> list[dict[str, Any]]:
    return list(json.loads((GOLDEN / family / "ids.json").read_text()))


def distance(ours: Array, theirs: Array) -> float:
    return float(numpy.linalg.norm(ours.ravel() - theirs.ravel()) / numpy.linalg.norm(theirs))


@pytest.mark.parametrize("geometry", geometries("qwen4_exp"))
def test_qwen_ids(geometry: dict[str, Any]) -> None:
    columns = row_ids.qwen_columns(
        geometry["vocab_size"],
        geometry["ngram_vocab_size_base"],
        geometry["ngram_size"],
        geometry["heads_per_ngram"],
        geometry["seed"],
        geometry["ple_layer_index"],
    )
    assert columns.multipliers == geometry["layer_multipliers"]
    assert columns.offsets == geometry["head_offsets"]
    for sequence in geometry["sequences"]:
        ids = row_ids.qwen_rows(columns, geometry["eos_token_id"], sequence["tokens"])
        assert ids == sequence["ids"]


@pytest.mark.parametrize("family", ["engram_v41", "engram_demo"])
def test_engram_ids(family: str) -> None:
    for geometry in geometries(family):
        layers = geometry.get("engram_layer_ids", geometry.get("layer_ids"))
        bases = geometry["engram_vocab_size"]
        if family == "engram_v41":
            bases = [bases] * (geometry["engram_max_ngram_size"] - 1)
        codes = geometry.get("engram_compressed_vocab_size", geometry.get("compressed_vocab_size"))
        heads = geometry.get("engram_n_heads", geometry.get("n_head_per_ngram"))
        columns = row_ids.engram_columns(codes, bases, heads, geometry.get("seed", 0), layers)
        assert [c.multipliers for c in columns] == geometry["multipliers"]
        assert [c.sizes for c in columns] == geometry["primes"]
        token_map = geometry["token_map"]
        for sequence in geometry["sequences"]:
            dead = set(sequence.get("dead", ()))
            mapped = []
            for position, token in enumerate(sequence["tokens"]):
                code = token
                if token >= 0 and isinstance(token_map, list):
                    code = token_map[token]
                elif token_map == "id mod 99092":
                    code = token % 99092
                mapped.append(row_ids.DEAD if position in dead else code)
            if family == "engram_demo" and min(mapped) < 0:
                continue  # ids that the demo hashes as they are; the library refuses them
            per_layer = [row_ids.engram_rows(c, geometry["pad_code"], mapped) for c in columns]
            assert [list(rows) for rows in zip(*per_layer, strict=True)] == sequence["ids"]


@pytest.mark.parametrize("geometry", geometries("longcat"))
def test_longcat_ids(geometry: dict[str, Any]) -> None:
    is_next = geometry["variant"] == "next"
    ours = row_ids.LongcatGeometry(
        geometry["text_vocab_size"] if is_next else geometry["vocab_size"],
        geometry["ratio"],
        geometry["n"],
        geometry["k"],
        geometry["eos"],
        frozenset(geometry["oe_ignored_token_ids"]) if is_next else None,
    )
    assert ours.moduli() == geometry["moduli"]
    for sequence in geometry["sequences"]:
        assert ours.rows(sequence["tokens"]) == sequence["ids"]


@pytest.mark.parametrize("geometry", geometries("gemma"))
def test_gemma_ids(geometry: dict[str, Any]) -> None:
    keys = ("image_token_id", "audio_token_id", "video_token_id")
    placeholders = [geometry[key] for key in keys] if keys[0] in geometry else None
    rows, pad = geometry["vocab_size_per_layer_input"], geometry.get("pad_token_id", 0)
    assert row_ids.gemma_rows(rows, pad, placeholders, geometry["tokens"]) == geometry["rows"]


def check(model: Any, io: Tensors, output: str, tolerance: float) -> None:
    """Every layer and sequence of a tiny model."""
    for layer in model.layer_indices:
        expected = io[output.format(layer)]
        for b, tokens in enumerate(io["input_ids"]):
            r = io[f"layer{layer}.hidden_in"][b] if f"layer{layer}.hidden_in" in io else None
            assert distance(model(layer, tokens.tolist(), r), expected[b]) < tolerance


def test_qwen_layer() -> None:
    io = Tensors(GOLDEN / "qwen4_exp" / "tiny_io.safetensors")
    check(checkpoints.QwenModel(GOLDEN / "qwen4_exp" / "tiny"), io, "layer{}.out", 1e-6)


@pytest.mark.parametrize("name", ["tiny_hc2", "tiny_hc4"])
def test_engram_demo_layer(name: str) -> None:
    io = Tensors(GOLDEN / "engram_demo" / f"{name}_io.safetensors")
    model = checkpoints.EngramDemoModel(GOLDEN / "engram_demo" / name, io["token_map"])
    check(model, io, "layer{}.f32.out", 1e-6)


@pytest.mark.parametrize("name", ["tiny_hc2", "tiny_hc4"])
def test_engram_v41_layer(name: str) -> None:
    io = Tensors(GOLDEN / "engram_v41" / f"{name}_io.safetensors")
    model = checkpoints.EngramV41Model(GOLDEN / "engram_v41" / name, io["token_map"])
    for number, layer in enumerate(model.layer_indices):
        for b, tokens in enumerate(io["input_ids"].tolist()):
            numpy.testing.assert_array_equal(model.ids(layer, tokens), io["row_ids"][b, :, number])
            rows = io[f"layer{layer}.rows"][b]
            numpy.testing.assert_array_equal(model.rows(layer, tokens), rows)
            # The public classes mask no gate here: without dead positions.
            module, r = model.module(layer), io[f"layer{layer}.hidden_in"][b]
            out = module(rows, r, numpy.zeros(len(tokens), bool))
            dead = io["token_mask"][b] == 0
            expected = io[f"layer{layer}.deq_f32.out_f32"][b]
            assert distance(out[~dead], expected[~dead]) < 1e-6
            numpy.testing.assert_array_equal(model(layer, tokens, r)[dead], r[dead])
            out = model.module(layer, is_fp8=True)(rows, r, numpy.zeros(len(tokens), bool))
            expected = io[f"layer{layer}.fp8.out_f32"][b]
            assert distance(out[~dead], expected[~dead]) < 1e-4  # bfloat16 in between


@pytest.mark.parametrize("name", ["tiny_lite", "tiny_next", "tiny_lite_float_ratio"])
def test_longcat_embedding(name: str) -> None:
    io = Tensors(GOLDEN / "longcat" / f"{name}_io.safetensors")
    model = checkpoints.LongcatModel(GOLDEN / "longcat" / name)
    check(model, io, "f32.out", 1e-6)
    for tokens, expected in zip(io["input_ids"].tolist(), io["bf16.out"], strict=True):
        numpy.testing.assert_array_equal(model(0, tokens, step=rounded), expected)


@pytest.mark.parametrize("name", ["tiny_gemma3n", "tiny_gemma4"])
def test_gemma_inputs(name: str) -> None:
    io = Tensors(GOLDEN / "gemma" / f"{name}_io.safetensors")
    model = checkpoints.GemmaModel(GOLDEN / "gemma" / name)
    for b, tokens in enumerate(io["input_ids"].tolist()):
        assert model.ids(tokens) == io["per_layer_ids"][b].tolist()
        ours = model(0, tokens, io["f32.inputs_embeds"][b])
        assert distance(ours, io["f32.per_layer_inputs"][b]) < 1e-6
        expected = io["bf16.per_layer_inputs"][b].reshape(ours.shape)
        ours = model(0, tokens, io["bf16.inputs_embeds"][b], rounded)
        numpy.testing.assert_array_equal(ours, expected)
