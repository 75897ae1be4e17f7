"""The path of docs/python.md from nothing to generated tokens: the tool makes a model, transformers runs it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import require
from test_tool import needs_tool, tool

torch = require("torch")
transformers = require("transformers")

import pleiades.hf  # noqa: E402

pytestmark = needs_tool


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_a_synthesised_model_generates(tmp_path: Path, dtype: str) -> None:
    checkpoint = tmp_path / "tiny"
    tool("synth", str(checkpoint), "--preset", "tiny", "--dtype", dtype)
    ours = pleiades.hf.from_pretrained(checkpoint, cache_bytes=100_000, dtype=torch.float32)
    ids = torch.tensor([[3, 14, 15, 92, 65, 35]])
    options: dict[str, Any] = {"max_new_tokens": 40, "do_sample": False, "eos_token_id": None}
    tokens = ours.generate(ids, pad_token_id=0, **options)
    assert len(set(tokens[0].tolist())) > 20  # text of a kind, not one token over and over
    if dtype == "bf16":
        reference, loading = transformers.AutoModelForCausalLM.from_pretrained(
            checkpoint, dtype=torch.float32, output_loading_info=True
        )
        assert not any(loading.values())
        assert torch.equal(reference.generate(ids, pad_token_id=0, **options), tokens)


def test_the_example_of_the_readme(tmp_path: Path) -> None:
    readme = Path(__file__).parents[2] / "README.md"
    example = readme.read_text().split("```python\n")[1].split("```")[0]
    tool("synth", str(tmp_path / "tiny"), "--preset", "tiny")
    printed = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    assert printed.startswith("tensor([[  3,  14,  15,  92,")
