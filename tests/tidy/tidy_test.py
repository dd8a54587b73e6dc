#!/usr/bin/env python3
"""Every rule of tidy goes red on a planted violation, and stays green on what is allowed."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import small_tree  # noqa: E402
import tidy  # noqa: E402

HEADER = "#pragma once\n// A thing for tests.\n// Thread: any.\n"


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
    def test_arrows_as_designed(self):
        arrows = (("src/base", "engine"), ("src/verbs", "src/soft"), ("src/soft", "src/topo"),
                  ("src/topo", "src/verbs"), ("engine", "plugin"), ("engine", "tuning"),
                  ("tuning", "src/verbs"), ("plugin", "src/topo"), ("plugin", "perf"),
                  ("include/mesh", "src/base"), ("engine", "tests"), ("engine/data", "engine/link"))
        files = {"%s/%d.cc" % (module, number): '#include "%s/b.h"\n' % target
                 for number, (module, target) in enumerate(arrows)}
        self.assertEqual([(path, 1, "include-arrow") for path in sorted(files)], violations(files))

    def test_includes_are_written_from_the_root(self):
        for name in ("b.h", "mesh/b.h", "../src/base/b.h"):
            self.red("engine/a.cc", '#include "%s"\n' % name, "include-form")
        self.red("tuning/a.cc", "#  include <engine/b.h>\n", "include-arrow")

    def test_includes_in_comments_and_strings_are_none(self):
        text = (
            '/*\n#include "engine/a.h"\n*/\nconst char* k = R"(\n#include "engine/a.h"\n)";\n'
        )
        self.assertEqual([], violations({"src/base/a.cc": text, "engine/a.h": HEADER}))

    def test_top_level_entries(self):
        self.assertEqual([("misc", 1, "top-level")], violations({"misc/a.txt": "a\n"}))
        self.green(".ci/run", "a\n")

    def test_headers_of_others(self):
        for rule, name, red, green in (
                ("nccl-header", "nccl.h", "engine", "plugin perf tests"),
                ("verbs-header", "infiniband/verbs.h",
                 "engine/control engine plugin src/topo tuning include/mesh",
                 "src/verbs src/soft tests engine/data"),
                ("hwloc-header", "hwloc.h", "engine", "src/topo")):
            files = {"%s/a.cc" % module: "#include <%s>\n" % name
                     for module in (red + " " + green).split()}
            self.assertEqual([("%s/a.cc" % module, 1, rule) for module in sorted(red.split())],
                             violations(files))

    def test_words_that_have_a_place(self):
        for rule, code, red, green in (
                ("getenv", 'getenv("A")', "src/base/log tests/a perf/driver/a",
                 "src/base/config perf/driver/environment"),
                ("getenv", "secure_getenv(a)", "engine/a", ""),
                ("getenv", "environ", "engine/a", ""),
                ("setenv", "setenv(a, b, 1)", "plugin/a", "tests/a"),
                ("dlopen", "dlopen(name, 0)", "engine/a", "src/verbs/a"),
                ("dlopen", "dlsym(library, name)", "plugin/a", "")):
            files = {path + ".cc": "auto a = %s;  // getenv\nconst char* k = \"getenv\";\n" % code
                     for path in (red + " " + green).split()}
            self.assertEqual([(path + ".cc", 1, rule) for path in sorted(red.split())],
                             violations(files))


class Shape(RuleTest):
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
        self.red("engine/a.cc", "int a;", "final-newline")
        self.red("engine/a.cc", "// " + "a" * 98 + "\n", "line-width")
        self.green("engine/a.cc", "// " + "a" * 97 + "\n")
        self.red("engine/a.cc", "// TO" + "DO: later\n", "todo")
        self.green("engine/a.cc", "// TO" + "DO(#12): later\n")

    def test_riddles(self):
        for word in ("Of", "Who", "What", "Where", "Which", "False:", "True:"):
            self.red("engine/a.cc", "// %s a message that meets a credit.\n" % word, "riddle")
        self.red("engine/a.cc", "int a;  // like" + "wise\n", "riddle")
        self.red("tests/a.py", "a = 1  # Of" + " b\n", "riddle")
        self.red("tests/a.py", '"""What' + ' it does."""\n', "riddle")
        self.green("engine/a.cc", "// Returns false if no credit is there.\n")
        self.green("engine/a.cc", "// Offers what another asks for.\n")

    def test_times_stand_in_one_header(self):
        for time in ("constexpr int kWaitMs = 5;", "static constexpr long kMin = 1, kNapNsMax{5};",
                     "int a = 1;\nconstexpr int kIdleS = 5;", "std::chrono::seconds period{10};"):
            self.red("plugin/a.cc", time + "\n", "time-outside", time.count("\n") + 1)
        self.green("engine/a.cc", "constexpr int kNsPerMs = 1, kQps = 2;\nint wait_ms = kWaitMs;\n")
        self.green("src/soft/a.cc", "constexpr int kWaitMs = 5;\n")

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


if __name__ == "__main__":
    unittest.main()
