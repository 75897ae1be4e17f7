"""Cases of every family: a made-up checkpoint, its reference, tokens and inputs.

A family is a function that takes a geometry of made_up.py and draws one where none is given.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy

import checkpoints
import made_up
from made_up import Random
from row_ids import DEAD
from tensors import Array

LENGTH = 40
Geometry = dict[str, Any]


@dataclass
class Case:
    folder: Path
    model: Any  # of checkpoints.py
    tokens: Array  # [2, LENGTH]
    inputs: Array | None  # [2, LENGTH, ...], exact in float32

    def outputs(self, **how: Any) -> dict[int, Array]:
        """By layer, what the reference gives: [2, LENGTH, ...]."""
        inputs = [None, None] if self.inputs is None else self.inputs
        both = list(zip(self.tokens.tolist(), inputs, strict=True))
        return {
            layer: numpy.stack([self.model(layer, tokens, r, **how) for tokens, r in both])
            for layer in self.model.layer_indices
        }


def between(random: Random, least: int, most: int) -> int:
    return int(random.integers(least, most + 1))


def text(random: Random, vocab: int, special: list[int]) -> Array:
    """[2, LENGTH] tokens with repeats; special ones are somewhere, the first also side by side."""
    tokens = random.integers(0, vocab, (2, LENGTH))
    tokens[1, 8:14] = tokens[1, :6]
    for b in range(2):
        places = random.permutation(LENGTH - 1)
        tokens[b, places[: len(special)]] = special
        tokens[b, places[0] + 1] = special[0]
    return tokens


def stream(random: Random, *shape: int) -> Array:
    """Inputs that are exact in float32; one token's first stream is zero."""
    values = random.standard_normal((2, LENGTH, *shape), numpy.float32).astype(numpy.float64)
    values[0, 3, 0] = 0
    return values


def token_map(folder: Path) -> Array:
    return numpy.fromfile(folder / "token_map.i32", numpy.int32)


def qwen(folder: Path, random: Random, given: Geometry | None = None) -> Case:
    vocab = between(random, 20, 5000)
    g = given or {
        "vocab": vocab,
        "hidden": 8 * between(random, 1, 20),
        "streams": between(random, 2, 5),
        "n": between(random, 2, 5),
        "heads": between(random, 1, 4),
        "dim": 4 * between(random, 1, 10),
        "taps": between(random, 1, 6),
        "base": between(random, 3, 200),
        "shards": between(random, 1, 13),
        "eos": between(random, 0, vocab - 1),
        "layers": [1, 3][: between(random, 1, 2)],
    }
    made_up.qwen(folder, random, **g)
    tokens = text(random, g["vocab"], [g["eos"]] * 4)
    inputs = stream(random, g["streams"], g["hidden"])
    return Case(folder, checkpoints.QwenModel(folder), tokens, inputs)


def engram_demo(folder: Path, random: Random, given: Geometry | None = None) -> Case:
    vocab = between(random, 40, 3000)
    g = given or {
        "vocab": vocab,
        "codes": between(random, 20, vocab),
        "hidden": between(random, 1, 160),
        "streams": between(random, 1, 5),
        "heads": between(random, 1, 4),
        "dim": between(random, 1, 40),
        "taps": between(random, 1, 6),
        "bases": random.integers(3, 300, between(random, 1, 3)).tolist(),
        "pad": between(random, 0, vocab - 1),
        "seed": between(random, 0, 10000),
        "layers": [0, 2][: between(random, 1, 2)],
    }
    made_up.engram_demo(folder, random, **g)
    tokens = text(random, g["vocab"], [g["pad"]] * 4)
    inputs = stream(random, g["streams"], g["hidden"])
    return Case(folder, checkpoints.EngramDemoModel(folder, token_map(folder)), tokens, inputs)


def engram_v41(folder: Path, random: Random, given: Geometry | None = None) -> Case:
    vocab = between(random, 40, 3000)
    g = given or {
        "vocab": vocab,
        "codes": between(random, 20, vocab),
        "hidden": 32 * between(random, 1, 6),
        "streams": between(random, 1, 5),
        "n": between(random, 2, 5),
        "heads": between(random, 1, 4),
        "dim": 32 * between(random, 1, 3),
        "base": between(random, 3, 300),
        "pad": between(random, 0, vocab - 2),
        "image": random.choice([None, vocab - 1]),
        "layers": [0, 3, 7][: between(random, 1, 3)],
    }
    made_up.engram_v41(folder, random, **g)
    images = [] if g["image"] is None else [g["image"]] * 3
    tokens = text(random, g["vocab"], [*images, *[DEAD] * 4, *[g["pad"]] * 3])
    inputs = stream(random, g["streams"], g["hidden"])
    return Case(folder, checkpoints.EngramV41Model(folder, token_map(folder)), tokens, inputs)


def longcat(
    folder: Path, random: Random, given: Geometry | None = None, *, is_next: bool = False
) -> Case:
    vocab, n, splits = between(random, 30, 300), between(random, 2, 5), between(random, 1, 4)
    g = given or {
        "vocab": vocab,
        "hidden": (n - 1) * splits * between(random, 1, 19),
        "ratio": float(random.uniform(1, 9)),
        "n": n,
        "splits": splits,
        "eos": between(random, 1, 9),
        "has_alias": bool(random.integers(0, 2)),
    }
    if is_next and not given:
        start = between(random, 15, vocab - 6)
        g |= {"text_vocab": start, "ignored": list(range(start, start + 5))}
    made_up.longcat(folder, random, **g)
    tokens = text(random, g["vocab"], [g["eos"]] * 4 + [0, 0] + g.get("ignored", []))
    return Case(folder, checkpoints.LongcatModel(folder), tokens, None)


def gemma(
    folder: Path, random: Random, given: Geometry | None = None, *, is_3n: bool = False
) -> Case:
    rows = between(random, 40, 300)
    g = given or {
        "vocab": rows + (16 if is_3n else 0),
        "rows": rows,
        "hidden": between(random, 1, 200),
        "layers": between(random, 1, 9),
        "width": between(random, 1, 150),
    }
    if not is_3n and not given:
        g["placeholders"] = [rows - 1, rows - 2, rows - 3][: between(random, 2, 3)]
    made_up.gemma(folder, random, **g)
    special = g.get("placeholders", [g["vocab"] - 1, g["rows"]])
    inputs = stream(random, g["hidden"])
    return Case(folder, checkpoints.GemmaModel(folder), text(random, g["vocab"], special), inputs)


FAMILIES: dict[str, Callable[..., Case]] = {
    "qwen": qwen,
    "engram_demo": engram_demo,
    "engram_v41": engram_v41,
    "longcat": longcat,
    "longcat_next": partial(longcat, is_next=True),
    "gemma_3n": partial(gemma, is_3n=True),
    "gemma_4": gemma,
}

# Of the released widths, with small tables: how many rows there are changes no arithmetic.
_ENGRAM = {"vocab": 129280, "codes": 99092, "streams": 4, "heads": 8, "pad": 2}
_LONGCAT = {"vocab": 100, "hidden": 3072, "ratio": 7.0, "n": 4, "splits": 4, "eos": 2}
_NEXT = {"vocab": 120, "text_vocab": 100, "ignored": list(range(100, 105))}
_GEMMA_3N = {"vocab": 316, "rows": 300, "width": 256}
_GEMMA_4 = {"vocab": 300, "rows": 300, "width": 256, "placeholders": [297, 298, 299]}
RELEASED: dict[str, Callable[..., Case]] = {
    name: partial(family, given=geometry)
    for name, family, geometry in [
        ("qwen4_exp", qwen, {"vocab": 248320, "hidden": 2560, "streams": 4, "n": 3, "heads": 8,
                             "dim": 160, "taps": 4, "base": 100, "shards": 12, "eos": 248044,
                             "layers": [2]}),
        ("engram_demo", engram_demo, _ENGRAM | {"hidden": 1024, "dim": 64, "taps": 4, "seed": 0,
                                                "bases": [300, 200], "layers": [1, 15]}),
        ("engram_v41", engram_v41, _ENGRAM | {"hidden": 5120, "n": 4, "dim": 256, "base": 200,
                                              "image": 129264, "layers": [1]}),
        ("longcat_lite", longcat, _LONGCAT),
        ("longcat_next", longcat, _LONGCAT | _NEXT),
        ("longcat_2", longcat, _LONGCAT | {"hidden": 8192, "ratio": 7.567, "n": 5}),
        ("gemma_3n", gemma, _GEMMA_3N | {"layers": 30, "hidden": 2048}),
        ("gemma_4_e2b", gemma, _GEMMA_4 | {"layers": 35, "hidden": 1536}),
        ("gemma_4_e4b", gemma, _GEMMA_4 | {"layers": 42, "hidden": 2560}),
    ]
}
