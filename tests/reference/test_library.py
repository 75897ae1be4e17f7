"""The library against the references, over random geometries and the released widths.

Tables are small: how many rows there are changes no arithmetic.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

import checkpoints
import made_up
import tensors
from tensors import Array

TOLERANCE = 1e-5
RANDOM_CASES = 4


@pytest.fixture
def random() -> numpy.random.Generator:
    """Seeded by PLE_TEST_SEED, or anew; the seed is printed when the test fails."""
    seed = int(os.environ.get("PLE_TEST_SEED", int.from_bytes(os.urandom(4), "little")))
    print(f"PLE_TEST_SEED={seed}")
    return numpy.random.default_rng(seed)


def between(random: numpy.random.Generator, least: int, most: int) -> int:
    return int(random.integers(least, most + 1))


def text(random: numpy.random.Generator, vocab: int, special: list[int]) -> Array:
    """[2, 24] tokens with repeats; each special one is somewhere, the first also side by side."""
    tokens = random.integers(0, vocab, (2, 24))
    tokens[1, 8:14] = tokens[1, :6]
    for b in range(2):
        places = random.permutation(23)
        tokens[b, places[: len(special)]] = special
        tokens[b, places[0] + 1] = special[0]
    return tokens


def compare(folder: Path, model: Any, tokens: Array, inputs: Array | None, *options: str) -> None:
    """Every layer, against the reference, through `pleiades compare`."""
    for layer in model.layer_indices:
        sequences = range(len(tokens))
        out = [model(layer, tokens[b].tolist(), None if inputs is None else inputs[b]) for b in sequences]
        case = {"input_ids": ("I64", tokens), f"layer{layer}.out": ("F64", numpy.stack(out))}
        if inputs is not None:
            case[f"layer{layer}.hidden_in"] = ("F32", inputs.astype(numpy.float32))
        tensors.write(folder / "case", case)
        (folder / "case").rename(folder.parent / "case.safetensors")
        words = ["compare", str(folder), str(folder.parent / "case.safetensors"), "--json"]
        words += ["--layer", str(layer), "--arithmetic", "float32", "--tolerance", str(TOLERANCE)]
        command = [sys.executable, "-m", "pleiades", *words, *options]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode in (0, 1), result.stderr
        assert json.loads(result.stdout)["rel"] < TOLERANCE


def stream(random: numpy.random.Generator, *shape: int) -> Array:
    """Inputs that are exact in float32; one token's first stream is zero."""
    values = random.standard_normal((2, 24, *shape), numpy.float32).astype(numpy.float64)
    values[0, 3, 0] = 0
    return values


def check_qwen(folder: Path, random: numpy.random.Generator, geometry: dict[str, Any]) -> None:
    made_up.qwen(folder, random, **geometry)
    tokens = text(random, geometry["vocab"], [geometry["eos"]] * 3)
    inputs = stream(random, geometry["streams"], geometry["hidden"])
    compare(folder, checkpoints.QwenModel(folder), tokens, inputs)


@pytest.mark.parametrize("case", range(RANDOM_CASES))
def test_qwen(tmp_path: Path, random: numpy.random.Generator, case: int) -> None:
    vocab = between(random, 20, 5000)
    geometry = {
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
    check_qwen(tmp_path / "model", random, geometry)


def test_qwen_at_the_released_width(tmp_path: Path, random: numpy.random.Generator) -> None:
    geometry = {"vocab": 248320, "hidden": 2560, "streams": 4, "n": 3, "heads": 8, "dim": 160}
    geometry |= {"taps": 4, "base": 100, "shards": 12, "eos": 248044, "layers": [2]}
    check_qwen(tmp_path / "model", random, geometry)


def check_demo(folder: Path, random: numpy.random.Generator, geometry: dict[str, Any]) -> None:
    made_up.engram_demo(folder, random, **geometry)
    tokens = text(random, geometry["vocab"], [geometry["pad"]] * 2)
    inputs = stream(random, geometry["streams"], geometry["hidden"])
    token_map = numpy.fromfile(folder / "token_map.i32", numpy.int32)
    compare(folder, checkpoints.EngramDemoModel(folder, token_map), tokens, inputs)


@pytest.mark.parametrize("case", range(RANDOM_CASES))
def test_engram_demo(tmp_path: Path, random: numpy.random.Generator, case: int) -> None:
    vocab = between(random, 40, 3000)
    geometry = {
        "vocab": vocab,
        "codes": between(random, 20, vocab),
        "hidden": 8 * between(random, 1, 20),
        "streams": between(random, 1, 5),
        "heads": between(random, 1, 4),
        "dim": 4 * between(random, 1, 10),
        "taps": between(random, 1, 6),
        "bases": random.integers(3, 200, between(random, 1, 3)).tolist(),
        "pad": between(random, 0, vocab - 1),
        "seed": between(random, 0, 10000),
        "layers": [0, 2][: between(random, 1, 2)],
    }
    check_demo(tmp_path / "model", random, geometry)


def test_engram_demo_at_its_width(tmp_path: Path, random: numpy.random.Generator) -> None:
    geometry = {"vocab": 129280, "codes": 99092, "hidden": 1024, "streams": 4, "heads": 8}
    geometry |= {"dim": 64, "taps": 4, "bases": [100, 100], "pad": 2, "seed": 0, "layers": [1, 15]}
    check_demo(tmp_path / "model", random, geometry)


def check_v41(folder: Path, random: numpy.random.Generator, geometry: dict[str, Any]) -> None:
    made_up.engram_v41(folder, random, **geometry)
    tokens = text(random, geometry["vocab"], [geometry["image"]] * 3 + [geometry["pad"]])
    inputs = stream(random, geometry["streams"], geometry["hidden"])
    token_map = numpy.fromfile(folder / "token_map.i32", numpy.int32)
    model = checkpoints.EngramV41Model(folder, token_map)
    compare(folder, model, tokens, inputs, "--projection", "dequantized")


@pytest.mark.parametrize("case", range(RANDOM_CASES))
def test_engram_v41(tmp_path: Path, random: numpy.random.Generator, case: int) -> None:
    vocab = between(random, 40, 3000)
    geometry = {
        "vocab": vocab,
        "codes": between(random, 20, vocab),
        "hidden": 32 * between(random, 1, 6),
        "streams": between(random, 1, 5),
        "n": between(random, 2, 5),
        "heads": between(random, 1, 4),
        "dim": 32 * between(random, 1, 3),
        "base": between(random, 3, 200),
        "pad": between(random, 0, vocab - 2),
        "image": vocab - 1,
        "layers": [0, 3, 7][: between(random, 1, 3)],
    }
    check_v41(tmp_path / "model", random, geometry)


def test_engram_v41_at_the_released_width(tmp_path: Path, random: numpy.random.Generator) -> None:
    geometry = {"vocab": 129280, "codes": 99092, "hidden": 5120, "streams": 4, "n": 4, "heads": 8}
    geometry |= {"dim": 256, "base": 100, "pad": 2, "image": 129264, "layers": [1]}
    check_v41(tmp_path / "model", random, geometry)


def check_longcat(folder: Path, random: numpy.random.Generator, geometry: dict[str, Any]) -> None:
    made_up.longcat(folder, random, **geometry)
    special = [geometry["eos"]] * 2 + [0] + geometry.get("ignored", [])[:2]
    compare(folder, checkpoints.LongcatModel(folder), text(random, geometry["vocab"], special), None)


@pytest.mark.parametrize("is_next", [False, True])
@pytest.mark.parametrize("case", range(RANDOM_CASES))
def test_longcat(
    tmp_path: Path, random: numpy.random.Generator, case: int, is_next: bool
) -> None:
    vocab, n, splits = between(random, 30, 300), between(random, 2, 5), between(random, 1, 4)
    geometry = {
        "vocab": vocab,
        "hidden": (n - 1) * splits * 2 * between(random, 1, 8),
        "ratio": float(random.uniform(1, 5)),
        "n": n,
        "splits": splits,
        "eos": between(random, 1, 9),
    }
    if is_next:
        start = between(random, 15, vocab - 6)
        geometry |= {"text_vocab": start, "ignored": list(range(start, start + 5))}
    check_longcat(tmp_path / "model", random, geometry)


@pytest.mark.parametrize(("n", "hidden"), [(4, 3072), (5, 8192)])
def test_longcat_at_the_released_widths(
    tmp_path: Path, random: numpy.random.Generator, n: int, hidden: int
) -> None:
    geometry = {"vocab": 500, "hidden": hidden, "ratio": 1.567, "n": n, "splits": 4, "eos": 2}
    check_longcat(tmp_path / "model", random, geometry)


def check_gemma(folder: Path, random: numpy.random.Generator, geometry: dict[str, Any]) -> None:
    made_up.gemma(folder, random, **geometry)
    special = geometry.get("placeholders", [geometry["vocab"] - 1])
    tokens = text(random, geometry["vocab"], special)
    compare(folder, checkpoints.GemmaModel(folder), tokens, stream(random, geometry["hidden"]))


@pytest.mark.parametrize("is_3n", [False, True])
@pytest.mark.parametrize("case", range(RANDOM_CASES))
def test_gemma(tmp_path: Path, random: numpy.random.Generator, case: int, is_3n: bool) -> None:
    rows = between(random, 40, 300)
    geometry = {
        "vocab": rows + (16 if is_3n else 0),
        "rows": rows,
        "hidden": 8 * between(random, 1, 20),
        "layers": between(random, 1, 9),
        "width": 4 * between(random, 1, 16),
    }
    if not is_3n:
        geometry["placeholders"] = [rows - 1, rows - 2, rows - 3]
    check_gemma(tmp_path / "model", random, geometry)


@pytest.mark.parametrize(("layers", "hidden"), [(30, 2048), (35, 1536), (42, 2560)])
def test_gemma_at_the_released_widths(
    tmp_path: Path, random: numpy.random.Generator, layers: int, hidden: int
) -> None:
    geometry = {"vocab": 300, "rows": 300, "hidden": hidden, "layers": layers, "width": 256}
    check_gemma(tmp_path / "model", random, geometry | {"placeholders": [297, 298, 299]})
