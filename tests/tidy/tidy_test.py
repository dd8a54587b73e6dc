#!/usr/bin/env python3
"""Every rule of tidy goes red on a planted violation, and stays green on what is allowed."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import cpp_text  # noqa: E402
import run_clang_tidy  # noqa: E402
import small_tree  # noqa: E402
import tables  # noqa: E402
import tidy  # noqa: E402

HEADER = "#pragma once\n// A thing for tests.\n// Thread: any.\n"
LONG_BODY = "  work();\n" * 59  # with signature and brace 61 lines


def violations(files):
    """Returns (path, line, rule) of every violation in a tree of these files."""
    with small_tree.small_tree(files) as root:
        return [(path, line, rule) for path, line, rule, _ in tidy.check(root)]


class RuleTest(unittest.TestCase):
    def red(self, path, text, rule, line=1):
        self.assertEqual([(path, line, rule)], violations({path: text}))

    def green(self, path, text):
        self.assertEqual([], violations({path: text}))


class Layering(RuleTest):
    def test_every_arrow_is_kept(self):
        modules = list(tables.ARROWS)
        for module in modules:
            for target in modules:
                name = "<mesh/x.h>" if target == "include/mesh" else '"%s/x.h"' % target
                text = "#include %s\n" % name
                with self.subTest(module=module, target=target):
                    allowed = tables.ARROWS[module]
                    if allowed is None or target == module or target in allowed:
                        self.green(module + "/y.cc", text)
                    else:
                        self.red(module + "/y.cc", text, "include-arrow")

    def test_arrows_as_designed(self):
        for path, name in (("src/base/a.cc", "engine/b.h"), ("src/verbs/a.cc", "src/soft/b.h"),
                           ("src/soft/a.cc", "src/topo/b.h"),
                           ("src/topo/a.cc", "src/verbs/b.h"), ("engine/a.cc", "plugin/b.h"),
                           ("engine/a.cc", "tuning/b.h"),
                           ("tuning/a.cc", "src/base/b.h"), ("plugin/a.cc", "src/topo/b.h"),
                           ("plugin/a.cc", "perf/b.h"),
                           ("include/mesh/a.cc", "src/base/b.h"), ("engine/a.cc", "tests/b.h")):
            with self.subTest(path=path, name=name):
                self.red(path, '#include "%s"\n' % name, "include-arrow")

    def test_includes_are_written_from_the_root(self):
        self.red("engine/a.cc", '#include "b.h"\n', "include-form")
        self.red("engine/a.cc", '#include "mesh/b.h"\n', "include-form")
        self.red("engine/a.cc", '#include "../src/base/b.h"\n', "include-form")
        self.red("tuning/a.cc", "#  include <engine/b.h>\n", "include-arrow")

    def test_includes_in_comments_and_strings_are_none(self):
        text = (
            '/*\n#include "engine/a.h"\n*/\nconst char* k = R"(\n#include "engine/a.h"\n)";\n'
        )
        self.assertEqual([], violations({"src/base/a.cc": text, "engine/a.h": HEADER}))

    def test_top_level_entries(self):
        self.assertEqual([("misc", 1, "top-level")], violations({"misc/a.txt": "a\n"}))
        self.green(".ci/run", "a\n")

    def test_nccl_headers(self):
        self.assertIn(("engine/a.cc", 1, "nccl-header"),
                      violations({"engine/a.cc": '#include "plugin/nccl/net.h"\n'}))
        self.red("engine/a.cc", "#include <nccl.h>\n", "nccl-header")
        for module in ("plugin", "perf", "tests"):
            self.green(module + "/a.cc", '#include "plugin/nccl/net.h"\n')

    def test_verbs_headers(self):
        text = "#include <infiniband/verbs.h>\n"
        for path in ("engine/control/frames.cc", "engine/control/control_plane.cc",
                     "engine/control/handle.cc",
                     "engine/stripe.cc", "plugin/a.cc",
                     "src/topo/a.cc", "tuning/a.cc", "include/mesh/a.cc"):
            self.red(path, text, "verbs-header")
        for path in ("src/verbs/a.cc", "src/soft/a.cc", "tests/a.cc", "engine/data/lane.cc",
                     "engine/data/send_channel.cc"):
            self.green(path, text)

    def test_hwloc_headers(self):
        self.red("engine/a.cc", "#include <hwloc.h>\n", "hwloc-header")
        self.green("src/topo/a.cc", "#include <hwloc.h>\n")

    def test_environment(self):
        for word in ('getenv("A")', 'secure_getenv("A")', "environ"):
            text = "auto a = %s;\n" % word
            self.red("src/base/log.cc", text, "getenv")
            self.red("tests/a.cc", text, "getenv")
            self.red("perf/driver/a.cc", text, "getenv")
            self.green("src/base/config.cc", text)
            self.green("perf/driver/environment.cc", text)
        self.red("plugin/a.cc", 'int a = setenv("A", "1", 1);\n', "setenv")
        self.green("tests/a.cc",
                   'int a = setenv("A", "1", 1);  // getenv\nconst char* k = "getenv";\n')

    def test_dlopen(self):
        self.red("engine/a.cc", "auto a = dlopen(name, 0);\n", "dlopen")
        self.red("plugin/a.cc", "auto a = dlsym(library, name);\n", "dlopen")
        self.green("src/verbs/a.cc", "auto a = dlopen(name, 0);\n")


class Shape(RuleTest):
    def test_file_lines(self):
        for path in ("engine/a.cc", "perf/run.py", "tests/x.sh"):
            comment = "// a\n" if path.endswith(".cc") else "# a\n"
            self.red(path, comment * 501, "file-lines", 501)
            self.green(path, comment * 500)
        self.red("tests/run", "#!/bin/sh\n" + "# a\n" * 500, "file-lines", 501)

    def test_function_lines(self):
        for before in ("void f() {\n", "TEST(Suite, Name) {\n", "A::A(int b) : b_{b}, c_(b) {\n",
                       "auto f(int a = B{}.c) -> std::vector<int> {\n", "const auto kF = [] {\n",
                       "template <typename T>  // {\nbool operator==(T a, T b) {\n"):
            with self.subTest(before=before):
                extra = before.count("\n") - 1
                rest = LONG_BODY[10 * extra:]
                end = "};\n" if before.startswith("const") else "}\n"
                self.red("engine/a.cc", before + rest + end, "function-lines")
                self.green("engine/a.cc", before + rest[10:] + end)

    def test_functions_in_scopes(self):
        long = "void f() {\n" + LONG_BODY + "}\n"
        for before, after in (
            ("namespace a::b {\n", "}\n"), ("class A final : public B<int> {\n public:\n", "};\n"),
            ('extern "C" {\n', "}\n"), ("int a[] = {1, 2};\n#define X {{{ \\\n  {{\n", ""),
            ("const char* k = R\"x(}}}\n)x\";\nchar c = '{'; int n = 1'000'000;\n", "")):
            with self.subTest(before=before):
                self.red("tests/a.cc", before + long + after, "function-lines",
                         before.count("\n") + 1)

    def test_tables_may_be_long(self):
        self.green("engine/a.cc", "const Row kRows[] = {\n" + "  {1, 2},\n" * 80 +
                   "};\nstruct A {\n" + "  int a;\n" * 80 + "};\n")

    def test_headers(self):
        self.green("engine/a.h", HEADER)
        self.red("engine/a.h", "// First.\n" + HEADER, "pragma-once")
        self.red("engine/a.h", "#pragma once\n\n// Thread: any.\n", "header-comment", 2)
        self.red("engine/a.h", "#pragma once\n// For something.\n", "header-thread", 2)
        self.green("tests/a.h", "#pragma once\n// For something.\n")

    def test_own_header_first(self):
        for own, name in (("engine/a.h", '"engine/a.h"'), ("include/mesh/a.h", "<mesh/a.h>")):
            wrong = "#include <vector>\n#include %s\n" % name
            self.assertEqual([("engine/a.cc", 1, "own-header")],
                             violations({own: HEADER, "engine/a.cc": wrong}))
            self.assertEqual([],
                             violations({own: HEADER,
                                         "engine/a.cc": "#include %s\n#include <vector>\n" % name}))

    def test_lines(self):
        self.red("engine/a.cc", "int a; \n", "trailing-space")
        self.red("README.md", "word \n", "trailing-space")
        self.red("engine/a.cc", "\tint a;\n", "tab")
        self.red("engine/a.cc", "int a;", "final-newline")
        self.red("engine/a.cc", "// " + "a" * 98 + "\n", "line-width")
        self.green("engine/a.cc", "// " + "a" * 97 + "\n")
        self.red("engine/a.cc", "// TO" + "DO: later\n", "todo")
        self.green("engine/a.cc", "// TO" + "DO(#12): later\n")

    def test_riddles(self):
        for word in ("Of", "Who", "What", "Where", "Which", "False:", "True:"):
            self.red("engine/a.cc", "// %s a message that meets a credit.\n" % word, "riddle")
        self.red("engine/a.cc", "int a;  // likewise\n", "riddle")
        self.green("engine/a.cc", "// Returns false if no credit is there.\n")
        self.green("engine/a.cc", "// Offers what another asks for.\n")

    def test_times_stand_in_one_header(self):
        for time in ("constexpr int kWaitMs = 5;", "static constexpr long kMin = 1, kNapNsMax{5};",
                     "int a = 1;\nconstexpr int kIdleS = 5;", "std::chrono::seconds period{10};"):
            self.red("plugin/a.cc", time + "\n", "time-outside", time.count("\n") + 1)
        self.green("engine/a.cc", "constexpr int kNsPerMs = 1, kQps = 2;\nint wait_ms = kWaitMs;\n")
        self.green("src/soft/a.cc", "constexpr int kWaitMs = 5;\n")

    def test_the_page_has_the_times_of_the_header(self):
        header = (HEADER + "inline constexpr long kANs = 2 * kNsPerMs;\n"
                  "inline constexpr int kBSeconds = 1'0;\n")
        good = "| `NCCL_X` | 30 |\n| `kANs` | 2 ms |\n| `kBSeconds` | 10 s |\n"
        for page in (good, good.replace("2 ms", "3 ms"), good + "| `kCNs` | 1 us |\n",
                     good.replace("30", "31"), "", "\n".join(reversed(good.split("\n"))) + "\n"):
            found = violations({"src/base/timeouts.h": header, "engine/README.md": page,
                                "plugin/README.md": "| `NCCL_X` | 30 |\n"})
            self.assertEqual([] if page == good else [("engine/README.md", 1, "time-table")],
                             [each for each in found if each[2].startswith("time")])

    def test_hot_files(self):
        for word in ("std::function<void()> a", "std::string a", "std::map<int, int> a",
                     "std::mutex a", "std::shared_ptr<A> a",
                     "auto a = std::make_unique<A>()"):
            self.red("engine/data/send_channel.cc", word + ";\n", "hot-file")
            self.green("engine/control/handle.cc", word + ";\n")
        for word in ("throw 1", "new A", 'LOG_WARN("a")'):
            self.red("engine/data/progress_loop.cc", "void f() {\n  %s;\n}\n" % word, "hot-file", 2)
        self.green("engine/data/progress_loop.cc",
                   "#include <new>\nstd::string_view a;  // new, throw\n")

    def test_names_out_of_use(self):
        for name in ("idx", "len", "LinkControl"):
            self.red("engine/a.cc", "int %s = 0;\n" % name, "name-out-of-use")
            self.green("perf/a.cc", "int %s = 0;\n" % name)
            self.green("engine/a.cc", "int %s_of_all = 0;  // not %s\n" % (name, name))

    def test_machine_words(self):
        for word in ("/wo" + "rk/main", "/ro" + "ot/x", "work" + "place"):
            self.red("README.md", "see %s\n" % word, "machine-path")
        self.green("README.md", "see perf/work/x and ${A}/root/x\n")

    def test_cmake(self):
        self.red("engine/CMakeLists.txt", "file(GLOB sources *.cc)\n", "cmake-glob")
        self.red("tests/x.cmake", "FILE( GLOB_RECURSE sources *.h)\n", "cmake-glob")
        for module in ("src/base", "engine", "tuning", "plugin"):
            path = module + "/a.cc"
            unlisted = {path: "int a;\n", "CMakeLists.txt": "# " + path + "\n",
                        "tests/CMakeLists.txt": "add_library(a a.cc)\n"}
            self.assertEqual([(path, 1, "cmake-unlisted")], violations(unlisted))
            beside = {path: "int a;\n", "CMakeLists.txt": "\n",
                      module + "/part.cmake": "add_library(a a.cc)\n"}
            self.assertEqual([], violations(beside))


class Scan(unittest.TestCase):
    def test_literals_are_blanked_and_offsets_stay(self):
        for text, expected in (('a("x\\"y", \'\\\'\');', 'a(""    , 0   );'),
                               ("1'000 /* ' */ 'b'", "1'000         0  "),
                               ('R"x(a\n")x" u8"b"', '""   \n     u8"" '),
                               ("a // b \\\n c\nd", "a      \n  \nd"),
                               ("a /* b", "a     ")):
            with self.subTest(text=text):
                code = cpp_text.code_of(text)
                self.assertEqual(len(text), len(code))
                self.assertEqual(expected.split(), code.split())

    def test_no_ctags_is_no_success(self):
        with mock.patch.object(cpp_text, "PROGRAMS", ("no-such-ctags",)):
            with self.assertRaisesRegex(RuntimeError, "universal-ctags"):
                violations({})


class ClangTidyRunner(unittest.TestCase):
    """The runner's memory, with a program in clang-tidy's place that finds fault with whatever has
    the word "bad"."""

    PROGRAM = ('#!/bin/sh\nfor last; do :; done\n'
               '[ "$1" = --version ] && echo 1 && exit 0\n! grep -H bad "$last"\n')
    FILES = {"engine/a.cc": '#include "engine/a.h"\n', "engine/a.h": "#include <mesh/b.h>\n",
             "include/mesh/b.h": "int b;\n",
             "engine/other.h": "int c;\n", ".clang-tidy": "\n", "program": PROGRAM}

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        patch = mock.patch.object(run_clang_tidy, "ROOT", self.root)
        patch.start()
        self.addCleanup(patch.stop)
        for path, text in self.FILES.items():
            self.write(path, text)
        os.chmod(os.path.join(self.root, "program"), 0o755)
        entry = {"directory": self.root, "file": "engine/a.cc", "command": "c++ engine/a.cc"}
        self.write("build/compile_commands.json", json.dumps([entry]))

    def write(self, path, text):
        place = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w", encoding="utf-8") as stream:
            stream.write(text)

    def run_once(self):
        """Returns (exit status, last line of what it said)."""
        build, program = os.path.join(self.root, "build"), os.path.join(self.root, "program")
        said = io.StringIO()
        with mock.patch.object(sys, "argv", ["x", build, "--clang-tidy",
                                             program]), contextlib.redirect_stdout(said):
            return run_clang_tidy.main(), said.getvalue().splitlines()[-1]

    def test_clean_is_remembered_until_something_reached_changes(self):
        looked, remembered = (0, "clang_tidy: 1 files, 1 looked at, 0 with findings"), (
            0, "clang_tidy: 1 files, 0 looked at, 0 with findings")
        self.assertEqual(looked, self.run_once())
        self.assertEqual(remembered, self.run_once())
        self.write("engine/other.h", "int d;\n")
        self.assertEqual(remembered, self.run_once())
        for path in ("include/mesh/b.h", "engine/a.h", ".clang-tidy"):
            self.write(path, "// changed\n" + self.FILES[path])
            self.assertEqual(looked, self.run_once())

    def test_findings_are_red_every_time(self):
        self.write("engine/a.cc", "int bad;\n")
        for _ in range(2):
            self.assertEqual((1, "clang_tidy: 1 files, 1 looked at, 1 with findings"),
                             self.run_once())


if __name__ == "__main__":
    unittest.main()
