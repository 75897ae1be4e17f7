"""A checkpoint in a public layout, read by the reference: its rows and its layers.

Every model gives, for one layer and one sequence, what the family's reference module returns: what
the layer adds ("delta"), or the updated stream ("update").
"""

import json
from pathlib import Path
from typing import Any

import numpy

import layers
import row_ids
from tensors import Array, Tensors, rounded


def text_config(folder: Path) -> dict[str, Any]:
    """The config, with the text model's keys at the top."""
    config = json.loads((folder / "config.json").read_text())
    return config | config.get("text_config", {})


class QwenModel:
    mode = "delta"

    def __init__(self, folder: Path) -> None:
        self.config = text_config(folder)
        self.tensors = Tensors(folder)
        self.layer_indices = sorted({number - 1 for number in self.config["ple_layer_ids"]})
        found = next(name for name in self.tensors.entries if ".ple." in name)
        self.root = found[: found.index("layers.")]

    def columns(self, layer: int) -> row_ids.Columns:
        c = self.config
        return row_ids.qwen_columns(
            c["vocab_size"],
            c["ngram_vocab_size_base"],
            c["ngram_size"],
            c["heads_per_ngram"],
            c.get("seed", 1234),
            self.layer_indices.index(layer),
        )

    def __call__(self, layer: int, tokens: list[int], r: Array) -> Array:
        c, prefix = self.config, f"{self.root}layers.{layer}.ple."
        shards = [name for name in self.tensors.entries if name.startswith(prefix) and ".shard_" in name]
        shards.sort(key=lambda name: int(name.split(".shard_")[1].split(".")[0]))
        table = numpy.concatenate([self.tensors[name] for name in shards])
        eos = c["eos_token_id"]
        ids = row_ids.qwen_rows(self.columns(layer), eos[0] if isinstance(eos, list) else eos, tokens)
        shape = (c["hc_count"], c["hidden_size"])

        def get(name: str) -> Array:
            return self.tensors[prefix + name]

        module = layers.Qwen(
            get("key_proj.weight"),
            get("value_proj.weight"),
            get("norm_key.weight").reshape(shape),
            get("norm_query.weight").reshape(shape),
            get("norm_conv.weight").reshape(shape),
            get("conv1d.weight").reshape(*shape, -1),
            c["ngram_size"],
            c["rms_norm_eps"],
        )
        return module(table[numpy.array(ids)].reshape(len(tokens), -1), r.reshape(len(tokens), *shape))


class EngramDemoModel:
    mode = "delta"

    def __init__(self, folder: Path, token_map: Array) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = Tensors(folder)
        self.token_map = token_map
        self.layer_indices = self.config["engram"]["layer_ids"]

    def __call__(self, layer: int, tokens: list[int], r: Array) -> Array:
        c, prefix = self.config["engram"], f"layers.{layer}.engram."
        columns = row_ids.engram_columns(
            c["compressed_vocab_size"],
            c["engram_vocab_size"],
            c["n_head_per_ngram"],
            c["seed"],
            self.layer_indices,
        )[self.layer_indices.index(layer)]
        codes = [int(self.token_map[token]) for token in tokens]
        ids = row_ids.engram_rows(columns, int(self.token_map[c["pad_id"]]), codes)
        table = self.tensors[prefix + "multi_head_embedding.embedding.weight"]
        streams = range(self.config["backbone"]["hc_mult"])
        hidden = self.config["backbone"]["hidden_size"]

        def each(name: str) -> Array:
            return numpy.stack([self.tensors[prefix + name.format(c)] for c in streams])

        module = layers.EngramDemo(
            each("key_projs.{}.weight"),
            each("key_projs.{}.bias"),
            self.tensors[prefix + "value_proj.weight"],
            self.tensors[prefix + "value_proj.bias"],
            each("norm1.{}.weight"),
            each("norm2.{}.weight"),
            each("short_conv.norms.{}.weight"),
            self.tensors[prefix + "short_conv.conv.weight"].reshape(len(streams), hidden, -1),
            c["max_ngram_size"],
        )
        return module(table[numpy.array(ids)].reshape(len(tokens), -1), r)


class EngramV41Model:
    mode = "update"

    def __init__(self, folder: Path, token_map: Array) -> None:
        self.config = text_config(folder)
        self.tensors = Tensors(folder)
        self.token_map = token_map
        self.layer_indices = self.config["engram_layer_ids"]

    def codes(self, tokens: list[int]) -> list[int]:
        image = self.config.get("image_token_id")
        return [row_ids.DEAD if t in (row_ids.DEAD, image) else int(self.token_map[t]) for t in tokens]

    def ids(self, layer: int, tokens: list[int]) -> Array:
        c = self.config
        columns = row_ids.engram_columns(
            c["engram_compressed_vocab_size"],
            [c["engram_vocab_size"]] * (c["engram_max_ngram_size"] - 1),
            c["engram_n_heads"],
            0,
            self.layer_indices,
        )[self.layer_indices.index(layer)]
        pad_token = c["engram_pad_token_id"] if "engram_pad_token_id" in c else c["engram_pad_id"]
        pad = int(self.token_map[pad_token])
        return numpy.array(row_ids.engram_rows(columns, pad, self.codes(tokens)))

    def rows(self, layer: int, tokens: list[int]) -> Array:
        prefix, ids = f"layers.{layer}.engram.embed.", self.ids(layer, tokens)
        scale = self.tensors[prefix + "scale"][ids].repeat(32, axis=-1)
        return rounded(self.tensors[prefix + "weight"][ids] * scale).reshape(len(tokens), -1)

    def module(self, layer: int, is_fp8: bool = False) -> layers.EngramV41:
        prefix = f"layers.{layer}.engram."
        weight = layers.expand_blocks(
            self.tensors[prefix + "wkv.weight"], self.tensors[prefix + "wkv.scale"]
        )
        q, k = self.tensors[prefix + "q_weight"], self.tensors[prefix + "k_weight"]
        return layers.EngramV41(weight, q, k, self.config["rms_norm_eps"], is_fp8)

    def dead(self, tokens: list[int]) -> Array:
        return numpy.array([code == row_ids.DEAD for code in self.codes(tokens)])

    def __call__(self, layer: int, tokens: list[int], r: Array, is_fp8: bool = False) -> Array:
        return self.module(layer, is_fp8)(self.rows(layer, tokens), r, self.dead(tokens))

    def fp8_slack(self, layer: int, tokens: list[int], r: Array) -> Array:
        return self.module(layer, is_fp8=True).slack(self.rows(layer, tokens), r, self.dead(tokens))


class LongcatModel:
    mode = "delta"
    layer_indices = (0,)

    def __init__(self, folder: Path) -> None:
        self.config = text_config(folder)
        self.tensors = Tensors(folder)

    def geometry(self) -> row_ids.LongcatGeometry:
        c = self.config
        is_next = "text_vocab_size" in c
        return row_ids.LongcatGeometry(
            c.get("text_vocab_size", c["vocab_size"]),
            c["ngram_vocab_size_ratio"],
            c["emb_neighbor_num"],
            c["emb_split_num"],
            c["eos_token_id"],
            frozenset(c.get("oe_ignored_token_ids", ())) if is_next else None,
        )

    def __call__(
        self, layer: int, tokens: list[int], r: Array | None = None, step: layers.Step = layers.exact
    ) -> Array:
        geometry = self.geometry()
        ids = numpy.array(geometry.rows(tokens))
        rows, projections = [], []
        for i in range(ids.shape[1]):
            row = self.tensors[f"model.ngram_embeddings.embedders.{i}.weight"][ids[:, i]]
            if geometry.ignored is not None:
                row = numpy.where(ids[:, i, None] == 0, 0, row)  # Next: 0 is no row
            rows.append(row)
            projections.append(self.tensors[f"model.ngram_embeddings.post_projs.{i}.weight"])
        names = ("model.embed_tokens.weight", "model.ngram_embeddings.word_embeddings.weight")
        words = self.tensors[next(name for name in names if name in self.tensors)][tokens]
        plain = numpy.array([token in (geometry.ignored or ()) for token in tokens])
        return layers.longcat(words, rows, projections, plain, step)


class GemmaModel:
    mode = "delta"
    layer_indices = (0,)

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        self.config = text_config(folder)
        self.tensors = Tensors(folder)
        is_3n = str(config["model_type"]).startswith("gemma3n")
        keys = ("image_token_id", "audio_token_id", "video_token_id")
        self.placeholders = None if is_3n else [config[key] for key in keys if config.get(key)]

    def ids(self, tokens: list[int]) -> list[int]:
        pad = 0 if self.placeholders is None else self.config.get("pad_token_id", 0)
        rows = self.config["vocab_size_per_layer_input"]
        return row_ids.gemma_rows(rows, pad, self.placeholders, tokens)

    def __call__(
        self, layer: int, tokens: list[int], r: Array, step: layers.Step = layers.exact
    ) -> Array:
        root = "model.language_model."
        module = layers.Gemma(
            self.tensors[root + "per_layer_model_projection.weight"],
            self.tensors[root + "per_layer_projection_norm.weight"],
            self.config["rms_norm_eps"],
            step,
            holds_scalars=self.placeholders is None,
        )
        return module(self.tensors[root + "embed_tokens_per_layer.weight"][self.ids(tokens)], r)
