"""The tool that comes with the package."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pleiades
from conftest import TINY

needs_tool = pytest.mark.skipif(
    not (Path(pleiades.__file__).parent / "bin" / "pleiades").exists(),
    reason="the package was built without the tool",
)
pytestmark = needs_tool


def tool(*arguments: str) -> str:
    command = [sys.executable, "-m", "pleiades", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_the_module_is_the_tool() -> None:
    assert pleiades.__version__ in tool("--version")
    assert json.loads(tool("inspect", str(TINY), "--json"))["family"] == "qwen4_exp"
