"""tools/lint finds what it is meant to find: small trees with one fault each."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LINT = Path(__file__).parents[2] / "tools" / "lint"


def lint(files):
    """Exit status and output of the linter on a tree of these files."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            target = Path(root, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        result = subprocess.run([sys.executable, LINT, root], capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr


def source(path, text):
    """A source file that stands in a CMake list."""
    folder, name = path.rsplit("/", 1)
    return {path: text, f"{folder}/CMakeLists.txt": f"add_library(x {name})\n"}


class LintTest(unittest.TestCase):
    def assert_finds(self, files, message):
        status, output = lint(files)
        self.assertIn(message, output)
        self.assertEqual(status, 1)

    def assert_clean(self, files):
        status, output = lint(files)
        self.assertEqual(status, 0, output)

    def test_rooms(self):
        for path, name in [
            ("src/base/a.cpp", "cache/b.hpp"),
            ("src/cache/a.cpp", "table/shard_table.hpp"),
            ("src/io/a.cpp", "pleiades/pleiades.h"),
            ("src/ngram/a.cpp", "b.hpp"),
        ]:
            self.assert_finds(source(path, f'#include "{name}"\n'), f"may not include {name}")
        self.assert_finds(source("src/misc/a.cpp", ""), "'misc' is no room")
        self.assert_finds(source("cli/a.cpp", '#include "base/b.hpp"\n'), "<pleiades/...> alone")
        self.assert_clean(source("src/cache/a.cpp", '#include "table/row_source.hpp"\n#include <span>\n'))
        self.assert_clean(source("src/engine/a.cpp", '#include "table/shard_table.hpp"\n'))

    def test_includes(self):
        self.assert_finds(source("tests/io/a.cpp", '#include "../b.hpp"\n'), "not the way to it")
        self.assert_finds(source("src/io/a.cpp", "#include <nlohmann/json.hpp>\n"), "is for src/checkpoint")
        self.assert_finds({"include/pleiades/a.hpp": "#include <fmt/core.h>\n"}, "a public header")
        self.assert_finds({"include/pleiades/a.hpp": "#include <liburing.h>\n"}, "is for src/io")
        self.assert_clean({"include/pleiades/a.hpp": '#include <span>\n#include "pleiades/pleiades.h"\n'})
        own_last = '#include "io/b.hpp"\n#include "io/a.hpp"\n'
        headers = {"src/io/a.hpp": "", "src/io/b.hpp": ""}
        self.assert_finds(source("src/io/a.cpp", own_last) | headers, "its own header first")

    def test_file_size(self):
        self.assert_finds(source("src/io/a.cpp", "int a;\n" * 401), "file has 401 lines, at most 400")
        self.assert_clean(source("src/io/a.cpp", "int a;\n" * 400))

    def test_function_size(self):
        def function(head, count):
            return source("src/io/a.cpp", f"namespace ple {{\n{head} {{\n" + "call();\n" * (count - 2) + "}\n}\n")

        self.assert_clean(function("int Reader::read(int a)", 70))
        self.assert_finds(function("int Reader::read(int a)", 71), "read has 71 lines, at most 70")
        self.assert_finds(function("Reader::Reader(int a) : a_(a)", 71), "Reader has 71 lines")
        self.assert_clean(function("__global__ void read_kernel(int a)", 150))
        self.assert_finds(function("__global__ void read_kernel(int a)", 151), "at most 150")
        self.assert_clean(function("struct Reader", 71))
        python = "def a():\n" + "    b()\n" * 70
        self.assert_finds({"tools/a.py": python}, "a has 71 lines, at most 70")

    def test_ratchet(self):
        tree = source("src/io/a.cpp", "int a;\n" * 500)
        self.assert_clean(tree | {"tools/lint_ratchet.txt": "src/io/a.cpp file 500\n"})
        self.assert_finds(tree | {"tools/lint_ratchet.txt": "src/io/a.cpp file 450\n"}, "at most 450")
        self.assert_finds(tree | {"tools/lint_ratchet.txt": "src/io/a.cpp file 550\n"}, "lower src/io/a.cpp file to 500")
        small = source("src/io/a.cpp", "int a;\n")
        self.assert_finds(small | {"tools/lint_ratchet.txt": "src/io/a.cpp file 500\n"}, "remove it")

    def test_bans(self):
        for path, line in [
            ("src/io/a.cpp", 'std::printf("%d", a);'),
            ("src/io/a.cpp", "std::cerr << a;"),
            ("src/io/a.cpp", "std::abort();"),
            ("src/io/a.cpp", "exit(1);"),
            ("src/io/a.cpp", "int* a = new int;"),
            ("src/io/a.cpp", "void* a = malloc(1);"),
            ("src/cache/a.cpp", "cudaMalloc(&a, 1);"),
            ("src/cache/a.cpp", "int fd = ::open(path, 0);"),
            ("src/kernels/a.cu", "gather<<<1, 1>>>(a);"),
            ("src/io/a.cpp", "throw 1;"),
            ("src/io/a.cpp", "try { f(); } catch (...) {}"),
            ("src/io/a.cpp", 'getenv("A");'),
            ("tests/io/a.cpp", "std::this_thread::sleep_for(1s);"),
        ]:
            self.assert_finds(source(path, f"void f() {{\n  {line}\n}}\n"), f"{path}:2: ")
        for line in [
            "auto a = std::unique_ptr<A>(new A(1));",
            "auto file = Reader::open(path);",
            "// exit(1) would be rude",
            'f("new malloc(1)");',
            'std::snprintf(a, 3, "b");',
        ]:
            self.assert_clean(source("src/cache/a.cpp", f"void f() {{\n  {line}\n}}\n"))

    def test_words(self):
        self.assert_finds({"README.md": "# A\n\nLook in /ho" + "me/me.\n"}, "a path of one machine")
        self.assert_finds(source("src/io/a.cpp", "// TO" + "DO: later\n"), "names its issue")
        self.assert_clean(source("src/io/a.cpp", "// TO" + "DO(#12): later\n"))

    def test_lists(self):
        self.assert_finds({"src/io/a.cpp": "", "src/io/CMakeLists.txt": "x(aa.cpp)\n"}, "in no CMakeLists.txt")
        self.assert_finds({"src/io/a.hpp": ""}, "is included by nobody")

    def test_documents(self):
        self.assert_finds({"docs/a.md": "# A\n\n# B\n"}, "this has 2")
        self.assert_finds({"docs/a.md": "A\n"}, "this has 0")
        self.assert_finds({"docs/a.md": "# A\n\nSee [b](b.md).\n"}, "b.md does not exist")
        self.assert_clean({"docs/a.md": "# A\n\n```\n# a comment\n```\n\nSee [b](b.md#c).\n", "docs/b.md": "# B\n"})
        self.assert_finds({f"{i}.txt": "" for i in range(19)}, "19 entries in the root")


if __name__ == "__main__":
    unittest.main()
