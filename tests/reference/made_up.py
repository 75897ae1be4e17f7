"""Made-up checkpoints in the public layouts, of any geometry, with random weights."""

import json
from pathlib import Path
from typing import Any

import numpy

import row_ids
import tensors
from tensors import Array

Random = numpy.random.Generator


class Writer:
    """Collects the tensors of a checkpoint."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.tensors: dict[str, tuple[str, Array]] = {}

    def normal(self, name: str, shape: tuple[int, ...], scale: float) -> None:
        values = self.random.standard_normal(shape, numpy.float32) * numpy.float32(scale)
        self.tensors[name] = ("BF16", tensors.to_bf16(values))

    def fp8(self, root: str, shape: tuple[int, int], block: tuple[int, int], power: int) -> None:
        """E4M3 codes of up to 448 and powers of two around 2^power, one for each block."""
        codes = self.random.integers(0, 127, shape, numpy.uint8)
        codes |= self.random.integers(0, 2, shape, numpy.uint8) << 7
        grid = (shape[0] // block[0], shape[1] // block[1])
        scales = self.random.integers(125 + power, 130 + power, grid, numpy.uint8)
        self.tensors[root + ".weight"] = ("F8_E4M3", codes)
        self.tensors[root + ".scale"] = ("F8_E8M0", scales)

    def save(self, folder: Path, config: dict[str, Any]) -> None:
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        tensors.write(folder / "model.safetensors", self.tensors)


def qwen(folder: Path, random: Random, **geometry: Any) -> None:
    """vocab, hidden, streams, n, heads, dim, taps, base, shards, eos, layers (1-based)"""
    g, writer = geometry, Writer(random)
    embed, channels = (g["n"] - 1) * g["heads"] * g["dim"], g["streams"] * g["hidden"]
    for position, number in enumerate(g["layers"]):
        prefix = f"model.layers.{number - 1}.ple."
        writer.normal(prefix + "key_proj.weight", (channels, embed), embed**-0.5)
        writer.normal(prefix + "value_proj.weight", (g["hidden"], embed), embed**-0.5)
        for name in ("key", "query", "conv"):
            writer.normal(f"{prefix}norm_{name}.weight", (channels,), 0.2)
        writer.normal(prefix + "conv1d.weight", (channels, 1, g["taps"]), 0.3)
        columns = row_ids.qwen_columns(g["vocab"], g["base"], g["n"], g["heads"], 1234, position)
        rows = -(-columns.rows // 128) * 128
        part = -(-rows // g["shards"])
        for shard in range(-(-rows // part)):
            count = min(part, rows - shard * part)
            name = f"{prefix}ple_embedding.ngram_embedding.shard_{shard}.weight"
            writer.normal(name, (count, g["dim"]), 1)
    writer.save(
        folder,
        {
            "model_type": "qwen4_exp_text",
            "num_hidden_layers": max(g["layers"]),
            "vocab_size": g["vocab"],
            "hidden_size": g["hidden"],
            "hc_count": g["streams"],
            "ple_layer_ids": g["layers"],
            "ple_embed_dim": embed,
            "ple_conv_kernel_size": g["taps"],
            "ngram_size": g["n"],
            "heads_per_ngram": g["heads"],
            "ngram_vocab_size_base": g["base"],
            "split_ngram_parts": g["shards"],
            "eos_token_id": g["eos"],
            "rms_norm_eps": 1e-6,
        },
    )


def write_token_map(folder: Path, random: Random, vocab: int, codes: int) -> None:
    token_map = numpy.concatenate([numpy.arange(codes), random.integers(0, codes, vocab - codes)])
    random.shuffle(token_map)
    (folder / "token_map.i32").write_bytes(token_map.astype(numpy.int32).tobytes())


def engram_demo(folder: Path, random: Random, **geometry: Any) -> None:
    """vocab, codes, hidden, streams, heads, dim, taps, bases, pad, seed, layers"""
    g, writer = geometry, Writer(random)
    width, streams, hidden = len(g["bases"]) * g["heads"] * g["dim"], g["streams"], g["hidden"]
    constants = row_ids.engram_columns(g["codes"], g["bases"], g["heads"], g["seed"], g["layers"])
    for layer, columns in zip(g["layers"], constants, strict=True):
        prefix = f"layers.{layer}.engram."
        table = prefix + "multi_head_embedding.embedding.weight"
        writer.normal(table, (columns.rows, g["dim"]), 1)
        writer.normal(prefix + "value_proj.weight", (hidden, width), width**-0.5)
        writer.normal(prefix + "value_proj.bias", (hidden,), 0.3)
        writer.normal(prefix + "short_conv.conv.weight", (streams * hidden, 1, g["taps"]), 0.3)
        for c in range(streams):
            writer.normal(f"{prefix}key_projs.{c}.weight", (hidden, width), width**-0.5)
            writer.normal(f"{prefix}key_projs.{c}.bias", (hidden,), 0.3)
            for name in ("norm1.{}", "norm2.{}", "short_conv.norms.{}"):
                writer.normal(f"{prefix}{name.format(c)}.weight", (hidden,), 1)
    engram = {
        "engram_vocab_size": g["bases"],
        "max_ngram_size": len(g["bases"]) + 1,
        "n_embed_per_ngram": g["heads"] * g["dim"],
        "n_head_per_ngram": g["heads"],
        "layer_ids": g["layers"],
        "pad_id": g["pad"],
        "seed": g["seed"],
        "kernel_size": g["taps"],
        "compressed_vocab_size": g["codes"],
    }
    backbone = {
        "hidden_size": hidden,
        "hc_mult": streams,
        "vocab_size": g["vocab"],
        "num_layers": max(g["layers"]) + 1,
    }
    config = {"model_type": "engram_demo_v1", "engram": engram, "backbone": backbone}
    writer.save(folder, config)
    write_token_map(folder, random, g["vocab"], g["codes"])


def engram_v41(folder: Path, random: Random, **geometry: Any) -> None:
    """vocab, codes, hidden, streams, n, heads, dim, base, pad, layers; image, or None for the text
    model's config alone"""
    g, writer = geometry, Writer(random)
    width, streams, hidden = (g["n"] - 1) * g["heads"] * g["dim"], g["streams"], g["hidden"]
    bases = [g["base"]] * (g["n"] - 1)
    constants = row_ids.engram_columns(g["codes"], bases, g["heads"], 0, g["layers"])
    for layer, columns in zip(g["layers"], constants, strict=True):
        prefix = f"layers.{layer}.engram."
        shape = ((streams + 1) * hidden, width)
        writer.fp8(prefix + "wkv", shape, (32, 32), -10)
        writer.fp8(prefix + "embed", (columns.rows, g["dim"]), (1, 32), -8)
        writer.normal(prefix + "q_weight", (streams, hidden), 1)
        writer.normal(prefix + "k_weight", (streams, hidden), 1)
    is_text = g["image"] is None
    text = {
        "model_type": "deepseek_v41_text",
        "vocab_size": g["vocab"],
        "hidden_size": hidden,
        "num_hidden_layers": max(g["layers"]) + 1,
        "hc_mult": streams,
        "rms_norm_eps": 1e-20,
        "engram_layer_ids": g["layers"],
        "engram_num_embeddings": [columns.rows for columns in constants],
        "engram_max_ngram_size": g["n"],
        "engram_vocab_size": g["base"],
        "engram_n_heads": g["heads"],
        "engram_head_dim": g["dim"],
        "engram_pad_id" if is_text else "engram_pad_token_id": g["pad"],
        "engram_compressed_vocab_size": g["codes"],
    }
    whole = {"image_token_id": g["image"], "text_config": text}
    writer.save(folder, (text if is_text else whole) | {"model_type": "deepseek_v41"})
    write_token_map(folder, random, g["vocab"], g["codes"])


def longcat(folder: Path, random: Random, **geometry: Any) -> None:
    """vocab, hidden, ratio, n, splits, eos, has_alias; text_vocab and ignored for LongCat-Next"""
    g, writer = geometry, Writer(random)
    base = g.get("text_vocab", g["vocab"])
    moduli = row_ids.LongcatGeometry(base, g["ratio"], g["n"], g["splits"], g["eos"]).moduli()
    dim = g["hidden"] // len(moduli)
    words = "ngram_embeddings.word_embeddings" if g.get("has_alias") else "embed_tokens"
    writer.normal(f"model.{words}.weight", (g["vocab"], g["hidden"]), 1)
    for i, modulus in enumerate(moduli):
        writer.normal(f"model.ngram_embeddings.embedders.{i}.weight", (modulus, dim), 1)
        name = f"model.ngram_embeddings.post_projs.{i}.weight"
        writer.normal(name, (g["hidden"], dim), dim**-0.5)
    config = {
        "model_type": "longcat_next" if "text_vocab" in g else "longcat_flash_ngram",
        "vocab_size": g["vocab"],
        "hidden_size": g["hidden"],
        "ngram_vocab_size_ratio": g["ratio"],
        "emb_neighbor_num": g["n"],
        "emb_split_num": g["splits"],
        "eos_token_id": g["eos"],
    }
    if "text_vocab" in g:
        config |= {"text_vocab_size": g["text_vocab"], "oe_ignored_token_ids": g["ignored"]}
    writer.save(folder, config)


def gemma(folder: Path, random: Random, **geometry: Any) -> None:
    """vocab, rows, hidden, layers, width; placeholders for Gemma 4, the last may be missing"""
    g, writer = geometry, Writer(random)
    root, total = "model.language_model.", g["layers"] * g["width"]
    writer.normal(root + "embed_tokens_per_layer.weight", (g["rows"], total), g["width"] ** -0.5)
    name = root + "per_layer_model_projection.weight"
    writer.normal(name, (total, g["hidden"]), 1)
    writer.normal(root + "per_layer_projection_norm.weight", (g["width"],), 1)
    text = {
        "vocab_size": g["vocab"],
        "vocab_size_per_layer_input": g["rows"],
        "hidden_size": g["hidden"],
        "num_hidden_layers": g["layers"],
        "hidden_size_per_layer_input": g["width"],
        "rms_norm_eps": 1e-6,
        "pad_token_id": 0,
    }
    config: dict[str, Any] = {"model_type": "gemma3n", "text_config": text}
    if "placeholders" in g:
        keys = ("image_token_id", "audio_token_id", "video_token_id")
        config = {"model_type": "gemma4", "text_config": text}
        config |= dict(zip(keys, g["placeholders"], strict=False))
    writer.save(folder, config)
