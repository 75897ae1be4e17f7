"""consumer_test.py SOURCE_DIR BUILD_DIR: installs the build, and uses it as another project would:
through CMake, through pkg-config, and as the README shows."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def run(*command, **options):
    print("$", *command, flush=True)
    return subprocess.run(command, check=True, **options)


def main():
    source, build = map(Path, sys.argv[1:])
    project = source / "tests" / "package" / "consumer"
    with tempfile.TemporaryDirectory() as scratch:
        prefix, out = Path(scratch, "prefix"), Path(scratch, "out")
        run("cmake", "--install", build, "--prefix", prefix, stdout=subprocess.DEVNULL)

        example = Path(scratch, "readme_example.cpp")
        readme = (source / "README.md").read_text(encoding="utf-8")
        example.write_text(re.search(r"```cpp\n(.*?)```", readme, re.DOTALL).group(1), encoding="utf-8")
        run("cmake", "-S", project, "-B", out, "-G", "Ninja", "--log-level=WARNING",
            f"-DCMAKE_PREFIX_PATH={prefix}", f"-DREADME_EXAMPLE={example}")
        run("cmake", "--build", out)
        run(out / "consumer_c")

        pkg_config_path = next(prefix.rglob("pleiades.pc")).parent
        environment = os.environ | {"PKG_CONFIG_PATH": str(pkg_config_path)}
        flags = run("pkg-config", "--cflags", "--libs", "pleiades", env=environment,
                    capture_output=True, text=True).stdout.split()
        run("cc", project / "consumer.c", "-o", out / "consumer_pc", *flags)
        run(out / "consumer_pc", env=environment | {"LD_LIBRARY_PATH": str(pkg_config_path.parent)})

        model = Path(scratch, "model")
        run(prefix / "bin" / "pleiades", "synth", model, "--preset", "tiny")
        run(out / "readme_example", model)


if __name__ == "__main__":
    main()
