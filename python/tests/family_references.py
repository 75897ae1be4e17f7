"""Every family but qwen4_exp from the specification in plain float64: checkpoints of random weights,
and what their layers give. Shares nothing with the library."""

import json
import math
from pathlib import Path
from typing import Any

import numpy

Array = Any
F64 = numpy.float64
RMS_EPS_F32 = float(numpy.finfo(numpy.float32).eps)
FILL = -2  # a look-back that meets no token


def bf16(rng: Any, shape: tuple[int, ...], scale: float = 1.0) -> tuple[str, Array]:
    """A random tensor of bfloat16 bits."""
    values = (rng.standard_normal(shape) * scale).astype(numpy.float32)
    return "BF16", (values.view(numpy.uint32) >> 16).astype(numpy.uint16)


def fp8(rng: Any, shape: tuple[int, ...]) -> tuple[str, Array]:
    """Random E4M3 codes of finite numbers."""
    codes = rng.integers(0, 0x7F, shape, dtype=numpy.uint8)
    return "F8_E4M3", codes | (rng.integers(0, 2, shape, dtype=numpy.uint8) << 7)


def powers(rng: Any, shape: tuple[int, ...], middle: int) -> tuple[str, Array]:
    """Random E8M0 scales around 2^middle."""
    return "F8_E8M0", rng.integers(125 + middle, 130 + middle, shape, dtype=numpy.uint8)


def numbers(tensor: tuple[str, Array]) -> Array:
    """The values of a tensor."""
    dtype, bits = tensor
    if dtype == "BF16":
        return (bits.astype(numpy.uint32) << 16).view(numpy.float32).astype(F64)
    if dtype == "F8_E8M0":
        return 2.0 ** (bits.astype(F64) - 127)
    code = numpy.arange(256)
    exponent, fraction = code >> 3 & 15, code & 7
    normal = (1 + fraction / 8) * 2.0 ** (exponent - 7)
    values = numpy.where(exponent == 0, fraction * 2.0**-9, normal)
    return numpy.where(code < 128, values, -values)[bits]


def rounded(values: Array) -> Array:
    """To the nearest bfloat16."""
    fraction, exponent = numpy.frexp(values)
    return numpy.ldexp(numpy.rint(fraction * 256) / 256, exponent)


def quantized(values: Array) -> Array:
    """As E4M3 keeps values, with a power of two for each 32."""
    blocks = values.reshape(-1, 32)
    most = numpy.maximum(numpy.abs(blocks).max(1), 1e-4).astype(numpy.float32)
    scale = 2.0 ** numpy.ceil(numpy.log2((most * numpy.float32(1 / 448)).astype(F64)))[:, None]
    exponent = numpy.maximum(numpy.frexp(blocks / scale)[1], -5)
    step = 2.0 ** (exponent - 4) * scale
    return (numpy.rint(blocks / step) * step).reshape(values.shape)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + numpy.exp(-x))


def rms(x: Array, eps: float) -> Array:
    return 1 / numpy.sqrt((x * x).mean(-1, keepdims=True) + eps)


def write_checkpoint(folder: Path, config: dict[str, Any], tensors: dict[str, Any]) -> None:
    """config.json and one safetensors file."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    header, offset = {}, 0
    for name, (dtype, values) in tensors.items():
        end = offset + values.nbytes
        header[name] = {"dtype": dtype, "shape": values.shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, values in tensors.values():
            file.write(values.tobytes())


class EngramIds:
    """Row ids of an Engram layer (B): codes, numpy's multipliers, primes that are used once."""

    def __init__(self, rng: Any, *, vocab: int, codes: int, layers: list[int], bases: list[int],
                 heads: int, pad: int, seed: int) -> None:
        self.codes = rng.permutation(numpy.arange(vocab) % codes).astype(numpy.int32)
        self.pad, self.bases, self.heads = int(self.codes[pad]), bases, heads
        bound = max(1, (2**63 - 1) // codes // 2)
        self.multipliers: dict[int, list[int]] = {}
        self.sizes: dict[int, list[int]] = {}
        used: set[int] = set()
        for layer in layers:
            drawn = numpy.random.default_rng(seed + 10007 * layer).integers(
                0, bound, len(bases) + 1, dtype=numpy.int64
            )
            self.multipliers[layer] = [2 * int(r) + 1 for r in drawn]
            self.sizes[layer] = []
            for base in bases:
                prime = base - 1
                for _ in range(heads):
                    prime += 1
                    while prime in used or not _is_prime(prime):
                        prime += 1
                    used.add(prime)
                    self.sizes[layer].append(prime)

    def rows(self, layer: int, tokens: list[int]) -> Array:
        """[tokens, columns]; a token of -1 is dead."""
        sizes = self.sizes[layer]
        offsets = numpy.concatenate([[0], numpy.cumsum(sizes)[:-1]])
        ids = numpy.empty((len(tokens), len(sizes)), numpy.int64)
        for p in range(len(tokens)):
            blocked, x = False, 0
            for k in range(len(self.bases) + 1):
                token = tokens[p - k] if p >= k else -1
                blocked = blocked or token < 0
                x ^= (self.pad if blocked else int(self.codes[token])) * self.multipliers[layer][k]
                for column in range((k - 1) * self.heads, k * self.heads) if k else ():
                    ids[p, column] = x % sizes[column] + offsets[column]
        return ids


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % factor for factor in range(2, math.isqrt(number) + 1))


class EngramV41:
    """DeepSeek V4.1 Engram (B.2)."""

    mode, has_dead = "update", True

    def __init__(self, rng: Any, *, hidden: int, streams: int, heads: int, dim: int, orders: int,
                 layers: list[int], base: int, vocab: int, codes: int) -> None:
        self.hidden, self.streams, self.layers = hidden, streams, layers
        self.ids = EngramIds(rng, vocab=vocab, codes=codes, layers=layers, heads=heads, pad=2,
                             bases=[base] * (orders - 1), seed=0)
        width = (orders - 1) * heads * dim
        rows = {layer: sum(self.ids.sizes[layer]) for layer in layers}
        self.vocab = vocab
        self.config = {
            "model_type": "deepseek_v41", "vocab_size": vocab, "hidden_size": hidden,
            "num_hidden_layers": max(layers) + 1, "hc_mult": streams, "rms_norm_eps": 1e-20,
            "engram_layer_ids": layers, "engram_num_embeddings": list(rows.values()),
            "engram_max_ngram_size": orders, "engram_vocab_size": base, "engram_n_heads": heads,
            "engram_head_dim": dim, "engram_pad_id": 2, "engram_compressed_vocab_size": codes,
        }
        self.tensors = {}
        for layer in layers:
            out = (streams + 1) * hidden
            self.tensors |= {
                f"layers.{layer}.engram.{name}": tensor
                for name, tensor in {
                    "embed.weight": fp8(rng, (rows[layer], dim)),
                    "embed.scale": powers(rng, (rows[layer], dim // 32), -8),
                    "wkv.weight": fp8(rng, (out, width)),
                    "wkv.scale": powers(rng, (out // 32, width // 32), -10),
                    "q_weight": bf16(rng, (streams, hidden)),
                    "k_weight": bf16(rng, (streams, hidden)),
                }.items()
            }

    def forward(self, layer: int, tokens: list[int], stream: Array, projection: str) -> Array:
        """The stream [tokens, streams, hidden] after the layer."""
        get = lambda name: self.tensors[f"layers.{layer}.engram.{name}"]  # noqa: E731
        ids = self.ids.rows(layer, tokens)
        scales = numpy.repeat(numbers(("F8_E8M0", get("embed.scale")[1][ids])), 32, -1)
        rows = rounded(numbers(("F8_E4M3", get("embed.weight")[1][ids])) * scales)
        rows = rows.reshape(len(tokens), -1)
        if projection == "fp8":
            rows = quantized(rows)
        kv = numpy.empty((len(tokens), (self.streams + 1) * self.hidden))
        for begin in range(0, kv.shape[1], 32):
            block = slice(begin, begin + 32)
            scale = numpy.repeat(numbers(("F8_E8M0", get("wkv.scale")[1][begin // 32])), 32)
            kv[:, block] = rows @ (numbers(("F8_E4M3", get("wkv.weight")[1][block])) * scale).T
        if projection == "fp8":
            kv = rounded(kv)
        kv = kv.reshape(len(tokens), self.streams + 1, self.hidden)
        key, value = kv[:, :-1], kv[:, -1:]
        weight = numbers(get("q_weight")) * numbers(get("k_weight"))
        score = (stream * weight * key).sum(-1, keepdims=True) / math.sqrt(self.hidden)
        score *= rms(stream, 1e-20) * rms(key, 1e-20)
        gate = sigmoid(numpy.copysign(numpy.sqrt(numpy.maximum(numpy.abs(score), 1e-6)), score))
        gate[[token < 0 for token in tokens]] = 0
        return stream + gate * value


class EngramDemo:
    """The Engram demo (B.1)."""

    mode, has_dead = "delta", False

    def __init__(self, rng: Any, *, hidden: int, streams: int, heads: int, dim: int, orders: int,
                 layers: list[int], bases: list[int], taps: int, vocab: int, codes: int) -> None:
        self.hidden, self.streams, self.layers, self.orders = hidden, streams, layers, orders
        self.ids = EngramIds(rng, vocab=vocab, codes=codes, layers=layers, bases=bases,
                             heads=heads, pad=2, seed=77)
        self.vocab, self.taps = vocab, taps
        width = (orders - 1) * heads * dim
        self.config = {
            "model_type": "engram_demo_v1",
            "engram": {
                "engram_vocab_size": bases, "max_ngram_size": orders, "layer_ids": layers,
                "n_embed_per_ngram": heads * dim, "n_head_per_ngram": heads, "pad_id": 2,
                "seed": 77, "kernel_size": taps, "compressed_vocab_size": codes,
            },
            "backbone": {"hidden_size": hidden, "hc_mult": streams, "vocab_size": vocab,
                         "num_layers": max(layers) + 1},
        }
        self.tensors = {}
        for layer in layers:
            names = {
                "multi_head_embedding.embedding.weight": ((sum(self.ids.sizes[layer]), dim), 1.0),
                "value_proj.weight": ((hidden, width), 0.1),
                "value_proj.bias": ((hidden,), 1.0),
                "short_conv.conv.weight": ((streams * hidden, 1, taps), 0.5),
            }
            for c in range(streams):
                names |= {
                    f"key_projs.{c}.weight": ((hidden, width), 0.1),
                    f"key_projs.{c}.bias": ((hidden,), 1.0),
                    f"norm1.{c}.weight": ((hidden,), 1.0),
                    f"norm2.{c}.weight": ((hidden,), 1.0),
                    f"short_conv.norms.{c}.weight": ((hidden,), 1.0),
                }
            self.tensors |= {f"layers.{layer}.engram.{name}": bf16(rng, shape, scale)
                             for name, (shape, scale) in names.items()}

    def forward(self, layer: int, tokens: list[int], stream: Array, _: str) -> Array:
        """What the layer adds to the stream [tokens, streams, hidden]."""
        get = lambda name: numbers(self.tensors[f"layers.{layer}.engram.{name}"])  # noqa: E731
        each = lambda name: numpy.stack(  # noqa: E731
            [get(name.format(c)) for c in range(self.streams)]
        )
        rows = get("multi_head_embedding.embedding.weight")[self.ids.rows(layer, tokens)]
        rows = rows.reshape(len(tokens), -1)
        key = numpy.einsum("tk,chk->tch", rows, each("key_projs.{}.weight"))
        key += each("key_projs.{}.bias")
        value = rows @ get("value_proj.weight").T + get("value_proj.bias")
        key *= rms(key, RMS_EPS_F32) * each("norm1.{}.weight")
        query = stream * rms(stream, RMS_EPS_F32) * each("norm2.{}.weight")
        score = (key * query).sum(-1, keepdims=True) / math.sqrt(self.hidden)
        root = numpy.sqrt(numpy.maximum(numpy.abs(score), 1e-6)) * numpy.sign(score)
        gated = sigmoid(root) * value[:, None]
        normed = gated * rms(gated, 1e-5) * each("short_conv.norms.{}.weight")
        taps = get("short_conv.conv.weight").reshape(self.streams, self.hidden, self.taps)
        conv = numpy.zeros_like(gated)
        for i in range(self.taps):
            lag = (self.taps - 1 - i) * self.orders
            conv[lag:] += taps[:, :, i] * normed[: max(len(tokens) - lag, 0)]
        return gated + conv * sigmoid(conv)


class Longcat:
    """LongCat's input embedding (C): Flash-Lite, or Next where text_vocab is given."""

    mode, has_dead = "delta", False

    def __init__(self, rng: Any, *, hidden: int, orders: int, splits: int, vocab: int,
                 ratio: float, text_vocab: int | None = None, alias: bool = False) -> None:
        self.hidden, self.orders, self.splits, self.vocab = hidden, orders, splits, vocab
        self.layers, self.base = [0], text_vocab or vocab
        self.is_next = text_vocab is not None
        self.ignored = list(range(self.base, self.base + 5)) if self.is_next else []
        self.tables = (orders - 1) * splits
        self.moduli = [int(ratio * self.base + 2 * i + 1) for i in range(self.tables)]
        self.config = {
            "model_type": "longcat_next" if self.is_next else "longcat_flash_ngram",
            "vocab_size": vocab, "hidden_size": hidden, "eos_token_id": 2,
            "ngram_vocab_size_ratio": ratio, "emb_neighbor_num": orders, "emb_split_num": splits,
        }
        if self.is_next:
            self.config |= {"text_vocab_size": text_vocab, "oe_ignored_token_ids": self.ignored}
        self.words = "model.embed_tokens.weight"
        if alias:
            self.words = "model.ngram_embeddings.word_embeddings.weight"
        self.tensors = {self.words: bf16(rng, (vocab, hidden))}
        dim = hidden // self.tables
        for i, size in enumerate(self.moduli):
            name = "model.ngram_embeddings.{}." + str(i) + ".weight"
            self.tensors[name.format("embedders")] = bf16(rng, (size, dim))
            self.tensors[name.format("post_projs")] = bf16(rng, (hidden, dim), 0.2)

    def row(self, table: int, tokens: list[int], p: int) -> int | None:
        """The row of a table at position p, or None where there is none."""
        modulus, power = self.moduli[table], 1
        digits = [0 if token in self.ignored else token for token in tokens]
        if self.is_next and digits[p] == 0:
            return None
        x = digits[p]
        for d in range(1, table // self.splits + 2):
            if p < d or digits[p - d] == 2 or (self.is_next and digits[p - d] == 0):
                break
            power = power * self.base % modulus
            x += digits[p - d] * power
        return None if self.is_next and x % modulus == 0 else x % modulus

    def forward(self, _layer: int, tokens: list[int], _: Array, rounding: str) -> Array:
        """The embedding [tokens, hidden]; in "bf16" every operation is rounded."""
        step = rounded if rounding == "bf16" else lambda x: x
        words = numbers(self.tensors[self.words])[tokens]
        out = words.copy()
        for i in range(self.tables):
            name = "model.ngram_embeddings.{}." + str(i) + ".weight"
            table = self.tensors[name.format("embedders")]
            projection = numbers(self.tensors[name.format("post_projs")])
            for p in range(len(tokens)):
                row = self.row(i, tokens, p)
                if row is not None:
                    out[p] = step(out[p] + step(projection @ numbers((table[0], table[1][row]))))
        out = step(out / (1 + self.tables))
        keeps = [token in self.ignored for token in tokens]
        out[keeps] = words[keeps]
        return out


class Gemma:
    """The per-layer inputs of Gemma 3n and 4 (D)."""

    mode, has_dead = "delta", False

    def __init__(self, rng: Any, *, hidden: int, layers: int, dim: int, vocab: int,
                 is_3n: bool) -> None:
        self.hidden, self.count, self.dim, self.vocab = hidden, layers, dim, vocab
        self.layers, self.is_3n = [0], is_3n
        self.table_rows = vocab - 10 if is_3n else vocab
        text = {
            "hidden_size": hidden, "num_hidden_layers": layers, "rms_norm_eps": 1e-6,
            "hidden_size_per_layer_input": dim, "vocab_size": vocab, "pad_token_id": 0,
            "vocab_size_per_layer_input": self.table_rows,
        }
        self.placeholders = [] if is_3n else [vocab - 3, vocab - 2]
        self.config = {"model_type": "gemma3n" if is_3n else "gemma4", "text_config": text}
        if not is_3n:
            self.config |= {"image_token_id": vocab - 3, "audio_token_id": vocab - 2}
        root = "model.language_model."
        self.tensors = {
            root + "embed_tokens_per_layer.weight": bf16(rng, (self.table_rows, layers * dim)),
            root + "per_layer_model_projection.weight": bf16(rng, (layers * dim, hidden)),
            root + "per_layer_projection_norm.weight": bf16(rng, (dim,)),
        }

    def forward(self, _layer: int, tokens: list[int], inputs: Array, rounding: str) -> Array:
        """[tokens, layers, dim]; in "bf16" every operation is rounded."""
        is_bf16 = rounding == "bf16"
        step = rounded if is_bf16 else lambda x: x
        scalar = rounded if is_bf16 and self.is_3n else lambda x: x
        table, projection, norm = (numbers(tensor) for tensor in self.tensors.values())
        stands_in = lambda t: t in self.placeholders or t >= self.table_rows  # noqa: E731
        rows = table[[0 if stands_in(token) else token for token in tokens]]
        rows = step(rows * step(numpy.float64(math.sqrt(self.dim))))
        context = step(step(inputs @ projection.T) * scalar(self.hidden**-0.5))
        context = context.reshape(len(tokens), self.count, self.dim)
        context = step(context * rms(context, 1e-6) * norm)
        both = step(context + rows.reshape(context.shape))
        return step(both * scalar(2**-0.5))
