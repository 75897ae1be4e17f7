"""Every family but qwen4_exp through Python, beside float64 references of random geometries."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

import family_references as references
import pleiades


def random_engram_v41(rng: Any) -> Any:
    return references.EngramV41(
        rng, hidden=int(rng.integers(1, 5)) * 32, streams=int(rng.integers(1, 6)),
        heads=int(rng.integers(1, 5)), dim=int(rng.integers(1, 4)) * 32,
        orders=int(rng.integers(2, 6)), layers=[1, 4, 9][: rng.integers(1, 4)],
        base=int(rng.integers(5, 300)), vocab=150, codes=int(rng.integers(20, 151)),
    )


def released_engram_v41(rng: Any) -> Any:
    return references.EngramV41(
        rng, hidden=5120, streams=4, heads=8, dim=256, orders=4, layers=[1], base=200, vocab=300,
        codes=250,
    )


def random_engram_demo(rng: Any) -> Any:
    orders = int(rng.integers(2, 5))
    return references.EngramDemo(
        rng, hidden=int(rng.integers(1, 150)), streams=int(rng.integers(1, 6)),
        heads=int(rng.integers(1, 5)), dim=int(rng.integers(1, 20)), orders=orders,
        layers=[0, 3][: rng.integers(1, 3)], bases=[int(b) for b in rng.integers(5, 300, orders - 1)],
        taps=int(rng.integers(1, 6)), vocab=150, codes=int(rng.integers(20, 151)),
    )


def released_engram_demo(rng: Any) -> Any:
    return references.EngramDemo(
        rng, hidden=1024, streams=4, heads=8, dim=64, orders=3, layers=[1, 15], bases=[300, 200],
        taps=4, vocab=300, codes=250,
    )


def random_longcat(rng: Any) -> Any:
    orders, splits = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    vocab = int(rng.integers(20, 90))
    return references.Longcat(
        rng, hidden=(orders - 1) * splits * int(rng.integers(1, 20)), orders=orders, splits=splits,
        vocab=vocab, ratio=float(rng.uniform(1, 9)), alias=bool(rng.integers(0, 2)),
        text_vocab=vocab - 12 if rng.integers(0, 2) else None,
    )


def released_longcat_lite(rng: Any) -> Any:
    return references.Longcat(rng, hidden=3072, orders=4, splits=4, vocab=100, ratio=7.0)


def released_longcat_next(rng: Any) -> Any:
    return references.Longcat(
        rng, hidden=3072, orders=4, splits=4, vocab=120, ratio=7.0, text_vocab=100
    )


def released_longcat_2(rng: Any) -> Any:
    return references.Longcat(rng, hidden=8192, orders=5, splits=4, vocab=100, ratio=7.567)


def random_gemma(rng: Any) -> Any:
    return references.Gemma(
        rng, hidden=int(rng.integers(1, 200)), layers=int(rng.integers(1, 7)),
        dim=int(rng.integers(1, 150)), vocab=60, is_3n=bool(rng.integers(0, 2)),
    )


def released_gemma_3n(rng: Any) -> Any:
    return references.Gemma(rng, hidden=2048, layers=30, dim=256, vocab=60, is_3n=True)


def released_gemma_4(rng: Any) -> Any:
    return references.Gemma(rng, hidden=1536, layers=35, dim=256, vocab=60, is_3n=False)


def random_tokens(family: Any, rng: Any, count: int) -> list[int]:
    tokens = rng.integers(0, family.vocab, count)
    tokens[rng.random(count) < 0.1] = 2
    if family.has_dead:
        tokens[rng.random(count) < 0.1] = -1
    return [int(token) for token in tokens]


def run_layer(
    family: Any, engine: pleiades.Engine, info: Any, tokens: list[int], inputs: Any, rng: Any
) -> Any:
    """Through the library, in random chunks."""
    outputs = numpy.empty((len(tokens), info.output_elements), inputs.dtype)
    sequence, step = pleiades.Sequence(engine), pleiades.Step(engine)
    begin = 0
    while begin < len(tokens):
        part = slice(begin, begin + int(rng.integers(1, len(tokens))))
        step.stage(sequence, tokens[part])
        given = inputs[part] if info.input_elements else None
        step.run(info.layer_index, given, outputs[part], mode=family.mode)
        step.commit()
        begin = part.stop
    return outputs


def open_family(family: Any, folder: Path, **options: Any) -> tuple[pleiades.Engine, Any]:
    """An engine, and what the model says of its layers."""
    references.write_checkpoint(folder, family.config, family.tensors)
    model = pleiades.Model.open(folder)
    if hasattr(family, "ids"):
        model.set_token_map(family.ids.codes)
    return pleiades.Engine(model, **options), model.layers


def relative(got: Any, wanted: Any) -> float:
    return float(numpy.linalg.norm(got.ravel() - wanted.ravel()) / numpy.linalg.norm(wanted))


def expect_reference(
    family: Any, opened: tuple[pleiades.Engine, Any], mode: str, rng: Any, count: int
) -> None:
    engine, layers = opened
    for info in layers:
        tokens = random_tokens(family, rng, count)
        inputs = rng.standard_normal((count, info.input_elements)).astype(numpy.float32)
        got = run_layer(family, engine, info, tokens, inputs, rng)
        shape = (count, info.stream_count, -1) if hasattr(family, "ids") else (count, -1)
        wanted = family.forward(
            info.layer_index, tokens, inputs.astype(float).reshape(shape) if inputs.size else None, mode
        )
        # A key or value on the edge between two bfloat16 may fall on either side of it.
        assert relative(got, wanted) < (1e-4 if mode == "fp8" else 1e-5)


RANDOM = [random_engram_v41, random_engram_demo, random_longcat, random_gemma]
RELEASED = [
    released_engram_v41, released_engram_demo, released_longcat_lite, released_longcat_next,
    released_longcat_2, released_gemma_3n, released_gemma_4,
]


@pytest.mark.parametrize("make", RANDOM)
def test_random_geometries_in_float32(
    make: Callable[[Any], Any], tmp_path: Path, randomness: random.Random
) -> None:
    for i in range(15):
        rng = numpy.random.default_rng(randomness.getrandbits(60))
        family = make(rng)
        opened = open_family(
            family, tmp_path / str(i), projection="dequantized", arena="cached",
            cache_bytes=int(rng.integers(0, 20_000)), thread_count=2,
        )
        expect_reference(family, opened, "dequantized", rng, 40)


@pytest.mark.parametrize("make", RELEASED)
def test_released_geometries_in_float32(
    make: Callable[[Any], Any], tmp_path: Path, randomness: random.Random
) -> None:
    rng = numpy.random.default_rng(randomness.getrandbits(60))
    family = make(rng)
    opened = open_family(family, tmp_path, projection="dequantized")
    expect_reference(family, opened, "dequantized", rng, 6)


def test_random_fp8_projections(tmp_path: Path, randomness: random.Random) -> None:
    for i in range(10):
        rng = numpy.random.default_rng(randomness.getrandbits(60))
        family = random_engram_v41(rng)
        opened = open_family(family, tmp_path / str(i), projection="fp8")
        expect_reference(family, opened, "fp8", rng, 40)


@pytest.mark.parametrize("make", [random_longcat, random_gemma])
def test_reference_arithmetic_is_rounded_like_the_public_code(
    make: Callable[[Any], Any], tmp_path: Path, randomness: random.Random
) -> None:
    differing, compared = 0, 0
    for i in range(10):
        rng = numpy.random.default_rng(randomness.getrandbits(60))
        family = make(rng)
        engine, (info,) = open_family(family, tmp_path / str(i), arithmetic="reference")
        tokens = random_tokens(family, rng, 40)
        bits = references.bf16(rng, (40, info.input_elements))
        got = run_layer(family, engine, info, tokens, bits[1], rng)
        wanted = family.forward(0, tokens, references.numbers(bits), "bf16")
        differing += int((references.numbers(("BF16", got)).ravel() != wanted.ravel()).sum())
        compared += wanted.size
    # f32 sums and float64 sums fall on two sides of an edge now and then.
    assert differing <= compared * 1e-4
