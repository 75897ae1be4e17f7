"""The library against the references, over random geometries and the released widths: through
`pleiades compare`, and through the Python engine in steps of any length."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

import cases
import pleiades
import tensors
from cases import Case
from made_up import Random
from tensors import Array

TOLERANCE = 1e-5
Outputs = dict[int, Array]  # by layer, [2, LENGTH, ...]


@pytest.fixture
def random() -> Random:
    """Seeded by PLE_TEST_SEED, or anew; the seed is printed when the test fails."""
    seed = int(os.environ.get("PLE_TEST_SEED", int.from_bytes(os.urandom(4), "little")))
    print(f"PLE_TEST_SEED={seed}")
    return numpy.random.default_rng(seed)


def compare(case: Case, wanted: Outputs) -> None:
    """Every layer through `pleiades compare`."""
    for layer, out in wanted.items():
        data = {"input_ids": ("I64", case.tokens), f"layer{layer}.out": ("F64", out)}
        if case.inputs is not None:
            data[f"layer{layer}.hidden_in"] = ("F32", case.inputs.astype(numpy.float32))
        file = case.folder.parent / "case.safetensors"
        tensors.write(file, data)
        words = ["compare", str(case.folder), str(file), "--json", "--layer", str(layer)]
        words += ["--arithmetic", "float32", "--projection", "dequantized"]
        words += ["--tolerance", str(TOLERANCE)]
        command = [sys.executable, "-m", "pleiades", *words]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode in (0, 1), result.stderr
        assert json.loads(result.stdout)["rel"] < TOLERANCE


def open_engine(case: Case, **options: Any) -> pleiades.Engine:
    model = pleiades.Model.open(case.folder)
    if hasattr(case.model, "token_map"):
        model.set_token_map(case.model.token_map)
    return pleiades.Engine(model, **options)


def run(
    case: Case, engine: pleiades.Engine, inputs: Array | None, random: Random, out: Outputs
) -> None:
    """Fills `out` in steps of random lengths, every one of which runs all layers of it."""
    step = pleiades.Step(engine)
    for b, tokens in enumerate(case.tokens):
        sequence, begin = pleiades.Sequence(engine), 0
        while begin < len(tokens):
            part = slice(begin, begin + cases.between(random, 1, len(tokens) - 1))
            step.stage(sequence, tokens[part])
            for layer, values in out.items():
                given = None if inputs is None else inputs[b, part]
                step.run(layer, given, values[b, part], mode=case.model.mode)
            step.commit()
            begin = part.stop


def expect(case: Case, wanted: Outputs, random: Random, **options: Any) -> None:
    """All layers in the same steps, then each layer alone, through a Python engine."""
    engine = open_engine(case, **options)
    inputs = None
    if case.inputs is not None:
        inputs = case.inputs.reshape(*case.tokens.shape, -1).astype(numpy.float32)
    alone = [[layer] for layer in wanted] if len(wanted) > 1 else []
    for layers in [list(wanted), *alone]:
        flat = {layer: wanted[layer].reshape(*case.tokens.shape, -1) for layer in layers}
        got = {layer: numpy.empty(out.shape, numpy.float32) for layer, out in flat.items()}
        run(case, engine, inputs, random, got)
        for layer, out in flat.items():
            for ours, theirs in zip(got[layer], out, strict=True):
                assert numpy.linalg.norm(ours - theirs) < TOLERANCE * numpy.linalg.norm(theirs)


@pytest.mark.parametrize("name", cases.RELEASED)
def test_released_widths(tmp_path: Path, random: Random, name: str) -> None:
    case = cases.RELEASED[name](tmp_path / "model", random)
    wanted = case.outputs()
    compare(case, wanted)
    expect(case, wanted, random, projection="dequantized")


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("family", cases.FAMILIES)
def test_the_tool(tmp_path: Path, random: Random, family: str, number: int) -> None:
    case = cases.FAMILIES[family](tmp_path / "model", random)
    compare(case, case.outputs())


@pytest.mark.parametrize("number", range(15))
@pytest.mark.parametrize("family", cases.FAMILIES)
def test_an_engine(tmp_path: Path, random: Random, family: str, number: int) -> None:
    case = cases.FAMILIES[family](tmp_path / "model", random)
    cached = {"arena": "cached", "cache_bytes": cases.between(random, 0, 20_000), "thread_count": 2}
    expect(case, case.outputs(), random, projection="dequantized", **cached)


def test_an_fp8_projection(tmp_path: Path, random: Random) -> None:
    """Each token, but where float32 and float64 sums fall on two sides of an edge between two
    bfloat16: there the output may be as far away as that takes it, and it is seldom so."""
    differing, compared = 0, 0
    for number in range(10):
        case = cases.engram_v41(tmp_path / str(number), random)
        assert case.inputs is not None
        inputs = case.inputs.reshape(*case.tokens.shape, -1).astype(numpy.float32)
        for layer, out in case.outputs(is_fp8=True).items():
            wanted = out.reshape(inputs.shape)
            got = numpy.empty_like(inputs)
            run(case, open_engine(case, projection="fp8"), inputs, random, {layer: got})
            error = numpy.linalg.norm(got - wanted, axis=-1)
            usual = TOLERANCE * numpy.linalg.norm(wanted, axis=-1)
            for b, tokens in enumerate(case.tokens.tolist()):
                slack = case.model.fp8_slack(layer, tokens, case.inputs[b])
                assert (error[b] <= usual[b] + slack).all()
            differing += int((error > usual).sum())
            compared += error.size
    assert differing <= compared * 0.02


@pytest.mark.parametrize("family", ["longcat", "longcat_next", "gemma_3n", "gemma_4"])
def test_reference_arithmetic(tmp_path: Path, random: Random, family: str) -> None:
    """Bit for bit, but where float32 and float64 sums fall on two sides of an edge."""
    differing, compared = 0, 0
    for number in range(10):
        case = cases.FAMILIES[family](tmp_path / str(number), random)
        bits = None
        if case.inputs is not None:
            bits = tensors.to_bf16(case.inputs)
            case.inputs = tensors.from_bf16(bits)
        wanted = tensors.to_bf16(case.outputs(step=tensors.rounded)[0])
        got = numpy.empty_like(wanted)
        run(case, open_engine(case, arithmetic="reference"), bits, random, {0: got})
        differing += int((got != wanted).sum())
        compared += wanted.size
    assert differing <= compared * 1e-4
