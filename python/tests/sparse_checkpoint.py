"""A checkpoint with a table of many gigabytes that takes no disk: holes in a file read as zeros."""

import json
import math
from pathlib import Path
from typing import Any

import numpy
import transformers
from transformers.models.qwen4_exp.configuration_qwen4_exp import Qwen4ExpTextConfig

from pleiades.hf.attaching import _without_ple_layers

LAYER = 1
EMBED_DIM = 2560


def _is_prime(number: int) -> bool:
    return all(number % factor for factor in range(2, math.isqrt(number) + 1))


def row_count(config: Any) -> int:
    """Rows of the table: the first 16 primes from the base on, padded."""
    rows, prime = 0, config.ngram_vocab_size_base - 1
    for _ in range((config.ngram_size - 1) * config.heads_per_ngram):
        prime += 1
        while not _is_prime(prime):
            prime += 1
        rows += prime
    divisor = config.make_ngram_vocab_size_divisible_by
    return -(-rows // divisor) * divisor


def write(folder: Path, tiny: Path, vocab_base: int) -> int:
    """Write the checkpoint; returns the bytes of its table."""
    settings = json.loads((tiny / "config.json").read_text())
    settings |= {
        "ngram_vocab_size_base": vocab_base,
        "ple_embed_dim": EMBED_DIM,
        "ple_layer_ids": [LAYER + 1],
        "split_ngram_parts": 4,
    }
    config = Qwen4ExpTextConfig(**settings)
    with _without_ple_layers():
        model = transformers.AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder)

    channels = config.hidden_size * config.hc_count
    prefix = f"model.layers.{LAYER}.ple."
    shapes = {
        f"{prefix}key_proj.weight": [channels, EMBED_DIM],
        f"{prefix}value_proj.weight": [config.hidden_size, EMBED_DIM],
        f"{prefix}conv1d.weight": [channels, 1, config.ple_conv_kernel_size],
    }
    shapes |= {f"{prefix}norm_{name}.weight": [channels] for name in ("key", "query", "conv")}
    dense_names = list(shapes)
    rows, part = row_count(config), -(-row_count(config) // 4)
    for shard in range(4):
        name = f"{prefix}ple_embedding.ngram_embedding.shard_{shard}.weight"
        shapes[name] = [min(part, rows - shard * part), EMBED_DIM // 16]
    _write_sparse(folder / "tables.safetensors", shapes, dense_names)
    weight_map = dict.fromkeys(shapes, "tables.safetensors")
    weight_map |= dict.fromkeys(_names(folder / "model.safetensors"), "model.safetensors")
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return rows * EMBED_DIM // 16 * 2


def _write_sparse(path: Path, shapes: dict[str, list[int]], dense_names: list[str]) -> None:
    header, offset = {}, 0
    for name, shape in shapes.items():
        end = offset + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    noise = numpy.random.default_rng(5)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in dense_names:
            values = noise.normal(0, 0.05, math.prod(shapes[name])).astype(numpy.float32)
            file.write((values.view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes())
        file.truncate(8 + len(text) + offset)


def _names(path: Path) -> list[str]:
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return [name for name in header if name != "__metadata__"]
