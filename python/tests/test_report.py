"""The report: one page, complete in itself, with every chart."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pleiades import report

CHARTS = ["Hits", "Read latency", "Spread of read times", "Time of a prefill step", "Time of a decode step"]


def run_json(prefill: int, decode: int) -> dict[str, Any]:
    """What the tool prints, made up."""
    steps, position = [], 0
    for i in range(prefill + decode):
        tokens = 256 if i < prefill else 1
        steps.append(
            {
                "position": position,
                "tokens": tokens,
                "phase": "prefill" if i < prefill else "decode",
                "stage_us": 10.0 + i,
                "wait_us": 100.0,
                "run_us": 50.0 * tokens,
                "commit_us": 1.0,
                "rows_distinct": 16 * (position + tokens),
                "rows_hit": 8 * (position + tokens),
                "read_p50_us": 90.0,
                "read_p99_us": 700.0,
                "rss_bytes": 150_000_000,
            }
        )
        position += tokens
    phase = {"tokens": position, "seconds": 1.0, "tokens_per_s": 1000.0}
    return {
        "tokens": position,
        "tokens_per_s": 1000.0,
        "rows_distinct": 16 * position,
        "rows_hit": 8 * position,
        "disk_reads": 1000,
        "disk_bytes": 1 << 20,
        "read_us": {"p50": 90.0, "p99": 700.0},
        "read_times_us": [[70.0, 300], [90.0, 600], [700.0, 95], [1500.0, 5]],
        "wait_share": 0.25,
        "peak_rss_bytes": 160_000_000,
        "output_digest": "00ff",
        "layer": 1,
        "sequences": 1,
        "prefill": phase,
        "decode": phase,
        "device": "cpu <AVX512>",
        "threads": 2,
        "arithmetic": "float32",
        "arena": "cached",
        "arena_bytes": 60_000_000,
        "io": "uring",
        "direct_io": True,
        "steps": steps,
    }


class Checker(HTMLParser):
    """Collects headings and refuses references to other files."""

    def __init__(self) -> None:
        super().__init__()
        self.headings: list[str] = []
        self._is_heading = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert not {name for name, _ in attributes} & {"src", "href", "srcset"}, tag
        assert tag not in ("link", "script", "img")
        self._is_heading = tag == "h2"

    def handle_data(self, data: str) -> None:
        if self._is_heading:
            self.headings.append(data)
        self._is_heading = False


@pytest.mark.parametrize(("prefill", "decode"), [(63, 300), (1, 0), (0, 1), (5, 2)])
def test_every_chart_of_a_run(tmp_path: Path, prefill: int, decode: int) -> None:
    source, page = tmp_path / "run.json", tmp_path / "report.html"
    source.write_text(json.dumps(run_json(prefill, decode)))
    assert report.main([str(source), "-o", str(page)]) == 0
    text = page.read_text()
    checker = Checker()
    checker.feed(text)
    wanted = [c for c in CHARTS if not (("prefill" in c and not prefill) or ("decode" in c and not decode))]
    assert [heading for heading in checker.headings if heading in CHARTS] == wanted
    assert {"Spread of step times", "Memory"} <= set(checker.headings)
    assert "url(" not in text and "@import" not in text
    assert "nan" not in re.findall(r'"[^"]*"', text) and "cpu &lt;AVX512&gt;" in text


def test_marks_stay_inside_their_charts() -> None:
    text = report.render(report.Run(run_json(63, 300)), "run.json")
    for x, y, width, height in re.findall(
        r'<rect class="\w+" x="([-.\d]+)" y="([-.\d]+)" width="([-.\d]+)" height="([-.\d]+)"', text
    ):
        assert 58 <= float(x) and float(x) + float(width) <= 627.5
        assert 11 <= float(y) and float(y) + float(height) <= 200.2


@pytest.mark.parametrize(
    ("content", "sentence"),
    [("{", "Expecting"), ('{"steps": []}', "--json --steps"), ('{"steps": [{}]}', "older tool")],
)
def test_what_is_no_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, sentence: str
) -> None:
    source = tmp_path / "run.json"
    source.write_text(content)
    assert report.main([str(source)]) == 1
    assert sentence in capsys.readouterr().err
