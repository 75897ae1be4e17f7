"""gpu_check_cases_test.py ROOT BIN: compute-sanitizer has a case for every kernel, and every case is a test."""

import pathlib
import re
import subprocess
import sys


def main():
    root, programs = map(pathlib.Path, sys.argv[1:])
    listed = (root / "tools/gpu_check_cases").read_text(encoding="utf-8")
    failures = 0
    cases = re.findall(r"^(\w+_test) +(\S+) +\S", listed, re.MULTILINE)
    for program, pattern in cases:
        tests = subprocess.run([programs / program, "--gtest_list_tests", f"--gtest_filter={pattern}"],
                               check=True, capture_output=True, text=True).stdout
        if not re.search("^ ", tests, re.MULTILINE):
            print(f"{program} has no test {pattern}")
            failures += 1
    kernels = set()
    for source in (root / "src/kernels").glob("*.cu*"):
        text = source.read_text(encoding="utf-8")
        kernels |= set(re.findall(r"__global__[^;{]*?void (\w+)\(", text))
    named = set(re.findall(r"\w+_kernel\b", listed))
    for name in sorted(kernels ^ named):
        print(f"no case is there for {name}" if name in kernels else f"no kernel is called {name}")
        failures += 1
    print(f"{len(cases)} cases, {len(kernels)} kernels")
    return 0 if failures == 0 and cases and kernels else 1


if __name__ == "__main__":
    sys.exit(main())
