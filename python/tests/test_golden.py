"""The tiny model through Python, as the public reference computed it."""

from typing import Any

import numpy
import pytest

import pleiades
from conftest import TINY_LAYERS


def run_chunks(engine: pleiades.Engine, golden: dict[str, Any], row: int, chunk: int) -> Any:
    """Both layers' additions to a golden sequence, [2, 48, 256]."""
    ids = golden["input_ids"][row]
    added = numpy.zeros((len(TINY_LAYERS), *golden["layer0.out"][row].shape), numpy.float32)
    sequence = pleiades.Sequence(engine)
    step = pleiades.Step(engine)
    for begin in range(0, len(ids), chunk):
        part = slice(begin, begin + chunk)
        step.stage(sequence, ids[part])
        for i, layer in enumerate(TINY_LAYERS):
            step.run(layer, golden[f"layer{layer}.hidden_in"][row, part], added[i, part], mode="delta")
        step.commit()
    assert sequence.position == len(ids)
    return added


def wanted(golden: dict[str, Any], row: int) -> Any:
    return numpy.stack([golden[f"layer{layer}.out"][row] for layer in TINY_LAYERS])


@pytest.mark.parametrize("row", [0, 1])
def test_every_chunking_is_the_reference(
    engine: pleiades.Engine, golden: dict[str, Any], row: int
) -> None:
    whole = run_chunks(engine, golden, row, 48)
    expected = wanted(golden, row)
    assert numpy.abs(whole - expected).max() < 1e-6 * numpy.abs(expected).max()
    for chunk in range(1, 48):
        numpy.testing.assert_array_equal(run_chunks(engine, golden, row, chunk), whole)


@pytest.mark.parametrize(
    "options",
    [{"arena": "resident"}, {"arena": "cached", "cache_bytes": 0}, {"io": "pread"}, {"thread_count": 2}],
    ids=str,
)
def test_caches_readers_and_threads_change_no_bit(
    model: pleiades.Model, engine: pleiades.Engine, golden: dict[str, Any], options: dict[str, Any]
) -> None:
    other = pleiades.Engine(model, **options)
    numpy.testing.assert_array_equal(
        run_chunks(other, golden, 0, 7), run_chunks(engine, golden, 0, 48)
    )


def test_a_ragged_batch_gives_what_its_sequences_give_alone(
    engine: pleiades.Engine, golden: dict[str, Any]
) -> None:
    alone = [run_chunks(engine, golden, row, 48)[0] for row in (0, 1)]
    sequences = [pleiades.Sequence(engine), pleiades.Sequence(engine)]
    step = pleiades.Step(engine)
    counts = [5, 31]
    ids = numpy.concatenate([golden["input_ids"][row, :count] for row, count in enumerate(counts)])
    highway = numpy.concatenate(
        [golden["layer0.hidden_in"][row, :count] for row, count in enumerate(counts)]
    )
    added = numpy.empty_like(highway)
    step.stage(sequences, ids, counts, positions=[0, 0])
    step.run(0, highway, added, mode="delta")
    step.commit()
    for row, part in enumerate(numpy.split(added, [counts[0]])):
        numpy.testing.assert_array_equal(part, alone[row][: counts[row]])


def test_update_adds_in_place(engine: pleiades.Engine, golden: dict[str, Any]) -> None:
    highway = golden["layer0.hidden_in"][0].copy()
    step = pleiades.Step(engine)
    step.stage(pleiades.Sequence(engine), golden["input_ids"][0])
    step.run(0, highway)
    expected = golden["layer0.hidden_in"][0] + golden["layer0.out"][0]
    numpy.testing.assert_allclose(highway, expected, atol=1e-5)


def test_bfloat16_bits_round_the_same_result(
    engine: pleiades.Engine, golden: dict[str, Any]
) -> None:
    bits = (golden["layer0.hidden_in"][0].view(numpy.uint32) >> 16).astype(numpy.uint16)
    highway = (bits.astype(numpy.uint32) << 16).view(numpy.float32)
    step = pleiades.Step(engine)
    step.stage(pleiades.Sequence(engine), golden["input_ids"][0])
    added = numpy.empty_like(bits)
    step.run(0, bits, added, mode="delta")
    exact = numpy.empty_like(highway)
    step.run(0, highway, exact, mode="delta")
    rounded = (added.astype(numpy.uint32) << 16).view(numpy.float32)
    assert numpy.abs(rounded - exact).max() <= numpy.abs(exact).max() / 256
