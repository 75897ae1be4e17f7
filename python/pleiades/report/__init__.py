"""``pleiades report RUN.json -o report.html``: a run as one self-contained page.

RUN.json is what ``pleiades run --json --steps`` prints.
"""

import argparse
import json
import sys
from pathlib import Path

from pleiades.report.page import render
from pleiades.report.run import Run

__all__ = ["Run", "main", "render"]


def main(arguments: list[str]) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="pleiades report", description="Draw a run as one self-contained HTML page."
    )
    parser.add_argument("run", type=Path, help="what 'pleiades run --json --steps' printed")
    parser.add_argument("-o", "--output", type=Path, default=Path("report.html"))
    options = parser.parse_args(arguments)
    try:
        run = Run(json.loads(options.run.read_text()))
        options.output.write_text(render(run, options.run.name))
    except (OSError, ValueError) as error:
        print(f"pleiades report: {options.run}: {error}", file=sys.stderr)
        return 1
    print(options.output)
    return 0
