"""Every example in Python runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import TINY, require

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "python").glob("*.py"))
NEEDS = {"torch_decode.py": ["torch"], "hugging_face.py": ["torch", "transformers"]}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: Path) -> None:
    for module in NEEDS.get(example.name, []):
        require(module)
    result = subprocess.run(
        [sys.executable, example, TINY], capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
