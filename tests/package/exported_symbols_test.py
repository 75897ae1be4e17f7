"""exported_symbols_test.py HEADER LIBRARY: the library exports what the header declares, no more."""

import re
import subprocess
import sys


def main():
    header, library = sys.argv[1:]
    with open(header, encoding="utf-8") as file:
        declared = set(re.findall(r"PLE_API[^;(]*?\b(ple_\w+)\(", file.read()))
    listing = subprocess.run(["nm", "--dynamic", "--defined-only", library], check=True,
                             capture_output=True, text=True).stdout
    # "0000000000001139 T ple_version@@PLEIADES_0"; A is the version's own name.
    symbols = [line.split()[1:3] for line in listing.splitlines()]
    exported = {name.split("@")[0] for kind, name in symbols if kind != "A"}
    for name in sorted(declared - exported):
        print(f"declared, not exported: {name}")
    for name in sorted(exported - declared):
        print(f"exported, not declared: {name}")
    print(f"{len(declared)} declared, {len(exported)} exported")
    return 0 if declared == exported and declared else 1


if __name__ == "__main__":
    sys.exit(main())
