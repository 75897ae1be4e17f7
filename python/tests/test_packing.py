"""Checkpoints written anew in another row format."""

from pathlib import Path
from typing import Any

import numpy
import pytest

import pleiades
from conftest import TINY


def delta(folder: Path, golden: dict[str, Any]) -> Any:
    """What layer 0 of a checkpoint adds to the first golden sequence."""
    engine = pleiades.Engine(pleiades.Model.open(folder))
    step = pleiades.Step(engine)
    step.stage(pleiades.Sequence(engine), golden["input_ids"][0])
    added = numpy.empty_like(golden["layer0.out"][0])
    step.run(0, golden["layer0.hidden_in"][0], added, mode="delta")
    return added


@pytest.mark.parametrize(("form", "error"), [("fp8", 0.05), ("int8", 0.02)])
def test_a_packed_checkpoint_gives_about_the_same(
    tmp_path: Path, golden: dict[str, Any], form: Any, error: float
) -> None:
    calls: list[tuple[int, int]] = []
    out = tmp_path / "out"
    report = pleiades.pack(
        TINY, out, form, interleave=True, progress=lambda done, total: calls.append((done, total))
    )
    model = pleiades.Model.open(out)
    assert report.row_count == sum(layer.row_count for layer in model.layers)
    assert report.new_bytes == model.info.table_bytes and report.rows_resumed == 0
    assert len(report.heads) == sum(layer.column_count for layer in model.layers)
    assert all(0 < head.relative_error < head.worst_error < 2 * error for head in report.heads)
    assert calls and calls[-1][0] == calls[-1][1]
    apart = delta(out, golden) - delta(TINY, golden)
    assert 0 < numpy.linalg.norm(apart) < error * numpy.linalg.norm(delta(TINY, golden))


def test_packing_as_bfloat16_changes_no_bit(tmp_path: Path, golden: dict[str, Any]) -> None:
    pleiades.pack(TINY, tmp_path / "fp8", "fp8")
    report = pleiades.pack(str(tmp_path / "fp8"), str(tmp_path / "bf16"), "bf16")
    assert all(head.worst_error == 0 for head in report.heads)
    numpy.testing.assert_array_equal(
        delta(tmp_path / "bf16", golden), delta(tmp_path / "fp8", golden)
    )


def test_what_cannot_be_packed_says_so(tmp_path: Path) -> None:
    with pytest.raises(pleiades.InvalidArgument, match="format is 'fp4', but must be one of 'bf16'"):
        pleiades.pack(TINY, tmp_path / "out", "fp4")  # type: ignore[arg-type]
    with pytest.raises(pleiades.InvalidArgument, match="exists"):
        pleiades.pack(TINY, TINY, "fp8")
    with pytest.raises(pleiades.WrongState):
        pleiades.pack(TINY, tmp_path / "out", "fp8", progress=lambda done, total: False)
    assert not (tmp_path / "out").exists()
