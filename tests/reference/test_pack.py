"""`pleiades pack` against the encoders of row_formats.py, bit for bit."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

import made_up
import row_formats
import tensors
from tensors import Array, Tensors

PREFIX = "model.layers.0.ple.ple_embedding.ngram_embedding"
SHARDS = 5
DIM = 32


def pack(folder: Path, out: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "pleiades", "pack", str(folder), "-o", str(out), "--json"]
    result = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return dict(json.loads(result.stdout))


def table(folder: Path, suffix: str) -> Array:
    """A part of the rows, from all shards."""
    found = Tensors(folder)
    return numpy.concatenate([found.stored(f"{PREFIX}.shard_{s}.{suffix}") for s in range(SHARDS)])


def rows_of(folder: Path) -> Array:
    """The source's rows in float32, which holds them exactly."""
    return tensors.from_bf16(table(folder, "weight")).astype(numpy.float32)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several batches of rows of all sizes, some of them odd: zeros of both signs, lone values,
    rows that are denormal, rows at the largest number, halfway cases."""
    folder = tmp_path_factory.mktemp("pack") / "model"
    geometry = {"vocab": 1000, "hidden": 16, "streams": 2, "n": 3, "heads": 4, "dim": DIM}
    geometry |= {"taps": 2, "base": 40000, "shards": SHARDS, "eos": 1, "layers": [1]}
    made_up.qwen(folder, numpy.random.default_rng(7), **geometry)
    found = Tensors(folder)
    random = numpy.random.default_rng(8)
    with (folder / "model.safetensors").open("r+b") as stream:
        for shard in range(SHARDS):
            _, entry, begin = found.entries[f"{PREFIX}.shard_{shard}.weight"]
            rows = found.stored(f"{PREFIX}.shard_{shard}.weight")
            values = tensors.from_bf16(rows) * 2.0 ** random.integers(-30, 30, (len(rows), 1))
            values[0] = 0
            values[1, ::2] = -0.0
            values[2, 1:] = 0
            values[3] = 2.0**-130
            values[4] = numpy.where(random.random(DIM) < 0.5, 1, -1) * 3.0e38
            values[5] = numpy.arange(DIM) / 4
            values[6, :16] = 0
            stream.seek(begin + entry["data_offsets"][0])
            stream.write(tensors.to_bf16(values).tobytes())
    return folder


@pytest.mark.parametrize("name", ["fp8", "int8", "nvfp4"])
def test_codes_and_scales_are_those_of_the_rules(
    checkpoint: Path, tmp_path: Path, name: str
) -> None:
    codes, scales, *table_scale = getattr(row_formats, name)(rows_of(checkpoint))
    pack(checkpoint, tmp_path / "split", "--format", name)
    stored = table(tmp_path / "split", "weight")
    numpy.testing.assert_array_equal(stored.view(numpy.uint8), codes.view(numpy.uint8))
    numpy.testing.assert_array_equal(table(tmp_path / "split", "weight_scale"), scales)
    if table_scale:
        assert Tensors(tmp_path / "split").stored(PREFIX + ".weight_scale_2") == table_scale[0]

    pack(checkpoint, tmp_path / "whole", "--format", name, "--interleave")
    suffix = {"fp8": "rows_fp8_e4m3_row", "int8": "rows_int8_row", "nvfp4": "rows_nvfp4"}[name]
    both = [part.view(numpy.uint8).reshape(len(codes), -1) for part in (codes, scales)]
    numpy.testing.assert_array_equal(table(tmp_path / "whole", suffix), numpy.hstack(both))


def test_the_report_is_what_was_lost(checkpoint: Path, tmp_path: Path) -> None:
    report = pack(checkpoint, tmp_path / "packed", "--format", "int8")
    codes, scales = row_formats.int8(rows_of(checkpoint))
    before = rows_of(checkpoint).astype(numpy.float64)
    after = tensors.rounded(codes.astype(numpy.float32) * scales)
    for head in report["heads"]:
        part = slice(head["row_begin"], head["row_begin"] + head["rows"])
        old, lost = before[part], after[part] - before[part]
        relative = numpy.linalg.norm(lost) / numpy.linalg.norm(old)
        assert head["relative_error"] == pytest.approx(relative, rel=1e-9)
        norms = numpy.linalg.norm(old, axis=1)
        per_row = numpy.linalg.norm(lost, axis=1) / numpy.where(norms == 0, 1, norms)
        assert head["worst_error"] == pytest.approx(per_row.max(), rel=1e-9)
        assert per_row[head["worst_row"] - head["row_begin"]] == pytest.approx(per_row.max())


def test_what_was_lost_is_not_lost_again(checkpoint: Path, tmp_path: Path) -> None:
    pack(checkpoint, tmp_path / "once", "--format", "nvfp4", "--interleave")
    pack(tmp_path / "once", tmp_path / "back", "--format", "bf16")
    pack(tmp_path / "once", tmp_path / "split", "--format", "nvfp4")
    pack(tmp_path / "split", tmp_path / "again", "--format", "bf16")
    numpy.testing.assert_array_equal(rows_of(tmp_path / "back"), rows_of(tmp_path / "again"))
