"""Golden data, and what every test needs."""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

import pleiades

GOLDEN = Path(__file__).parents[2] / "tests" / "data" / "golden" / "qwen4_exp"
TINY = GOLDEN / "tiny"
TINY_LAYERS = (0, 2)
DTYPES = {"F32": numpy.float32, "I64": numpy.int64, "BF16": numpy.uint16}


def read_tensors(path: Path) -> dict[str, Any]:
    """The tensors of a safetensors file; bfloat16 as its bits."""
    raw = path.read_bytes()
    header_bytes = int.from_bytes(raw[:8], "little")
    tensors = {}
    for name, entry in json.loads(raw[8 : 8 + header_bytes]).items():
        if name != "__metadata__":
            begin, end = (8 + header_bytes + offset for offset in entry["data_offsets"])
            values = numpy.frombuffer(raw[begin:end], DTYPES[entry["dtype"]])
            tensors[name] = values.reshape(entry["shape"])
    return tensors


def require(module: str) -> Any:
    """The module; a visible skip where it is missing, a failure where PLE_REQUIRE_TORCH=1."""
    if os.environ.get("PLE_REQUIRE_TORCH") == "1":
        return __import__(module)
    return pytest.importorskip(module)


@pytest.fixture(scope="session")
def golden() -> dict[str, Any]:
    """What the public reference computed on the tiny model."""
    return read_tensors(GOLDEN / "tiny_io.safetensors")


@pytest.fixture(scope="session")
def model() -> pleiades.Model:
    """The tiny model."""
    return pleiades.Model.open(TINY)


@pytest.fixture
def engine(model: pleiades.Model) -> pleiades.Engine:
    """A CPU engine with a cache smaller than the tables."""
    return pleiades.Engine(model, arena="cached", cache_bytes=100_000, thread_count=1)


@pytest.fixture
def randomness() -> Iterator[random.Random]:
    """Seeded by PLE_TEST_SEED, or anew; the seed is printed when the test fails."""
    seed = int(os.environ.get("PLE_TEST_SEED", random.randrange(1 << 32)))
    print(f"PLE_TEST_SEED={seed}")
    yield random.Random(seed)
