"""A model whose table is larger than memory should be."""

import subprocess
import sys
from pathlib import Path

from conftest import TINY, require

require("torch")
require("transformers")

import sparse_checkpoint  # noqa: E402

GENERATE = """
import resource, sys
import torch, transformers, pleiades.hf

def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before = peak_bytes()
model = pleiades.hf.from_pretrained(sys.argv[1], cache_bytes=1 << 30, dtype=torch.bfloat16)
ids = torch.arange(3, 403)[None] % 500
tokens = model.generate(ids, max_new_tokens=8, do_sample=False, eos_token_id=None, pad_token_id=0)
parameters = sum(p.numel() * p.element_size() for p in model.parameters())
print(tokens.shape[1], peak_bytes() - before - parameters)
"""


def test_a_table_of_16_gb_takes_less_than_2_gb(tmp_path: Path) -> None:
    table_bytes = sparse_checkpoint.write(tmp_path, TINY, 3_200_000)
    assert table_bytes > 16e9
    result = subprocess.run(
        [sys.executable, "-c", GENERATE, str(tmp_path)], capture_output=True, text=True, check=True
    )
    token_count, above_bytes = map(int, result.stdout.split())
    assert token_count == 408
    assert above_bytes < 2e9
    first = next(line for line in result.stderr.splitlines() if line.startswith("pleiades: "))
    assert "16.4 GB of n-gram tables, 1.07 GB cached (6.6 %)" in first
