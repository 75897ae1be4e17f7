"""``python -m pleiades``: the command line tool that came with the package."""

import os
import sys
from pathlib import Path

import pleiades

TOOL = Path(pleiades.__file__).parent / "bin" / "pleiades"


def main() -> None:
    """Become the tool; `report` is the one command that is written in Python."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["report"]:
        from pleiades import report

        sys.exit(report.main(arguments[1:]))
    if not TOOL.exists():
        sys.exit(f"pleiades: the package was built without the tool: no file {TOOL}")
    os.execv(TOOL, [str(TOOL), *arguments])


if __name__ == "__main__":
    main()
