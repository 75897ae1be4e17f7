"""The report of a real run as a browser draws it: nothing refused, nothing fetched, nothing blank."""

import shutil
import subprocess
from pathlib import Path

import numpy
import pytest

from test_tool import needs_tool, tool

Image = pytest.importorskip("PIL.Image")
pytestmark = [
    needs_tool,
    pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium: tools/setup test"),
]

# The paper, then a mark of each kind: prefill and staging, computing, hits.
COLOURS = {
    "light": [(251, 250, 247), (125, 86, 201), (31, 157, 139), (47, 111, 222)],
    "dark": [(20, 21, 27), (169, 139, 234), (76, 197, 177), (111, 159, 245)],
}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run of 4,096 random tokens over a made-up table."""
    folder = tmp_path_factory.mktemp("report")
    tool("synth", str(folder / "model"), "--preset", "tiny", "--rows-base", "20000")
    tokens = numpy.random.default_rng(5).integers(0, 512, 4096, numpy.uint32)
    tokens.tofile(folder / "tokens.u32")
    arguments = ["--layer", "0", "--tokens", str(folder / "tokens.u32"), "--chunk", "64"]
    arguments += ["--cache-bytes", "1MB", "--decode", "400"]
    (folder / "run.json").write_text(
        tool("run", str(folder / "model"), *arguments, "--json", "--steps")
    )
    tool("report", str(folder / "run.json"), "-o", str(folder / "report.html"))
    return folder / "report.html"


def draw(page: Path, width: int, scheme: str, picture: Path) -> list[str]:
    """Draw the page; returns what the browser's console said."""
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr"]
    command += [f"--blink-settings=preferredColorScheme={int(scheme == 'light')}"]
    command += [f"--user-data-dir={picture.parent / 'profile'}", f"--window-size={width},2600"]
    command += [f"--screenshot={picture}", page.as_uri()]
    result = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return [line for line in result.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.parametrize("width", [500, 1240])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_drawn_whole(page: Path, tmp_path: Path, width: int, scheme: str) -> None:
    picture = tmp_path / "page.png"
    assert draw(page, width, scheme, picture) == []
    image = Image.open(picture).convert("RGB")
    counts = {colour: count for count, colour in image.getcolors(1 << 24)}
    for colour in COLOURS[scheme]:
        assert counts.get(colour, 0) > 200, colour
    margin = image.crop((width - 16, 0, width, image.height))
    assert margin.getcolors() == [(16 * image.height, COLOURS[scheme][0])]


def test_a_page_that_fetches_is_caught(page: Path, tmp_path: Path) -> None:
    fetching = tmp_path / "fetching.html"
    image = '<img src="https://example.com/x.png"></body>'
    fetching.write_text(page.read_text().replace("</body>", image))
    assert "Content Security Policy" in "".join(draw(fetching, 500, "light", tmp_path / "page.png"))
