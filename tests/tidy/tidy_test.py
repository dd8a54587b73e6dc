#!/usr/bin/env python3
"""Every rule of tidy goes red on a planted violation, and stays green on what is allowed."""

import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import tidy  # noqa: E402

HEADER = "#pragma once\n// A thing for tests.\n// Thread: any.\n"
# Rule, path, text, and the line if it is not the first.
RED = (
    ("include-form", "engine/a.cc", '#include "mesh/b.h"\n'),
    ("include-form", "engine/a.cc", '#include "../src/base/b.h"\n'),
    ("include-arrow", "tuning/a.cc", "#  include <engine/b.h>\n"),
    ("top-level", "misc/a.txt", "a\n"),
    ("nccl-header", "engine/a.cc", "#include <nccl.h>\n"),
    ("verbs-header", "engine/control/a.cc", "#include <infiniband/verbs.h>\n"),
    ("hwloc-header", "engine/a.cc", "#include <hwloc.h>\n"),
    ("getenv", "src/base/log.cc", 'auto a = getenv("A");\n'),
    ("getenv", "engine/a.cc", "auto a = environ;\n"),
    ("setenv", "plugin/a.cc", "auto a = setenv(a, b, 1);\n"),
    ("dlopen", "engine/a.cc", "auto a = dlopen(name, 0);\n"),
    ("pragma-once", "engine/a.h", "// First.\n" + HEADER),
    ("header-comment", "engine/a.h", "#pragma once\n\n// Thread: any.\n", 2),
    ("header-thread", "engine/a.h", "#pragma once\n// For something.\n", 2),
    ("trailing-space", "README.md", "word \n"),
    ("final-newline", "engine/a.cc", "int a;"),
    ("line-width", "engine/a.cc", "// " + "a" * 98 + "\n"),
    ("todo", "engine/a.cc", "// TO" + "DO: later\n"),
    ("riddle", "engine/a.cc", "int a;  // like" + "wise\n"),
    ("riddle", "tests/a.py", "a = 1  # Of" + " b\n"),
    ("riddle", "tests/a.py", '"""What' + ' it does."""\n'),
    ("time-outside", "plugin/a.cc", "static constexpr long kMin = 1, kNapNsMax{5};\n"),
    ("time-outside", "plugin/a.cc", "int a = 1;\nstd::chrono::seconds period{10};\n", 2),
    ("hot-file", "engine/data/send_channel.cc", "std::string a;\n"),
    ("hot-file", "engine/data/progress_loop.cc", "void f() {\n  new A;\n}\n", 2),
    ("name-out-of-use", "engine/a.cc", "int idx = 0;\n"),
    ("machine-path", "README.md", "see /wo" + "rk/main\n"),
    ("machine-path", "README.md", "see our work" + "place\n"),
    ("cmake-glob", "tests/x.cmake", "FILE( GLOB_RECURSE sources *.h)\n"),
)
GREEN = (
    (".ci/run", "a\n"),
    ("engine/a.cc", '/*\n#include "plugin/a.h"\n*/\nauto k = R"(\n#include "plugin/a.h"\n)";\n'),
    ("engine/data/a.cc", "#include <infiniband/verbs.h>\n"),
    ("perf/driver/environment.cc", 'auto a = getenv("A");  // setenv\nconst char* k = "dlopen";\n'),
    ("engine/a.h", HEADER),
    ("tests/a.h", "#pragma once\n// For something.\n"),
    ("engine/a.cc", "// " + "a" * 97 + "\n"),
    ("engine/a.cc", "// TO" + "DO(#12): later\n"),
    ("engine/a.cc", "// Returns false if no credit is there.\n// Offers what another asks for.\n"),
    ("engine/a.cc", "constexpr int kNsPerMs = 1, kQps = 2;\nint wait_ms = kWaitMs;\n"),
    ("src/soft/a.cc", "constexpr int kWaitMs = 5;\n"),
    ("engine/control/handle.cc", "std::string a;\n"),
    ("engine/data/progress_loop.cc", "#include <new>\nstd::string_view a;  // new, throw\n"),
    ("engine/a.cc", "int idx_of_all = 0;  // not idx\n"),
    ("README.md", "see perf/work/x and ${A}/root/x\n"),
)


def violations(files):
    """Returns (path, line, rule) of every violation in a tree of these files; each .cc is named in
    a CMake file unless one is given."""
    listed = "".join("  %s\n" % path for path in files if path.endswith(".cc"))
    with tempfile.TemporaryDirectory() as root:
        for path, text in {"CMakeLists.txt": "add_library(all\n%s)\n" % listed, **files}.items():
            place = os.path.join(root, path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w", encoding="utf-8") as stream:
                stream.write(text)
        return [(path, line, rule) for path, line, rule, _ in tidy.check(root)]


class Rules(unittest.TestCase):
    def test_each_is_red_on_its_violation_alone(self):
        for rule, path, text, *line in RED:
            with self.subTest(rule, path=path, text=text):
                # The rule for what lies at the top names the folder.
                where = path.split("/")[0] if rule == "top-level" else path
                self.assertEqual([(where, line[0] if line else 1, rule)], violations({path: text}))

    def test_what_is_allowed_is_green(self):
        for path, text in GREEN:
            with self.subTest(path, text=text):
                self.assertEqual([], violations({path: text}))

    def test_riddles_are_known_by_their_first_word(self):
        for word in ("Of", "Who", "What", "Where", "Which", "False:", "True:"):
            self.assertEqual([("engine/a.cc", 1, "riddle")],
                             violations({"engine/a.cc": "// %s a message.\n" % word}))

    def test_arrows_as_designed(self):
        arrows = (("src/base", "engine"), ("src/verbs", "src/soft"), ("src/soft", "src/topo"),
                  ("src/topo", "src/verbs"), ("engine", "plugin"), ("engine", "tuning"),
                  ("tuning", "src/verbs"), ("plugin", "src/topo"), ("plugin", "perf"),
                  ("include/mesh", "src/base"), ("engine", "tests"), ("engine/data", "engine/link"))
        files = {"%s/%d.cc" % (module, number): '#include "%s/b.h"\n' % target
                 for number, (module, target) in enumerate(arrows)}
        self.assertEqual([(path, 1, "include-arrow") for path in sorted(files)], violations(files))

    def test_own_header_first(self):
        for own, name in (("engine/a.h", '"engine/a.h"'), ("include/mesh/a.h", "<mesh/a.h>")):
            for text, red in (("#include <vector>\n#include %s\n", [("engine/a.cc", 1,
                                                                     "own-header")]),
                              ("#include %s\n#include <vector>\n", [])):
                self.assertEqual(red, violations({own: HEADER, "engine/a.cc": text % name}))

    def test_every_source_is_in_a_cmake_file_of_its_own(self):
        for module in ("src/base", "engine", "tuning", "plugin"):
            path = module + "/a.cc"
            elsewhere = {path: "int a;\n", "CMakeLists.txt": "# " + path + "\n",
                         "tests/CMakeLists.txt": "add_library(a a.cc)\n"}
            self.assertEqual([(path, 1, "cmake-unlisted")], violations(elsewhere))
            beside = {path: "int a;\n", "CMakeLists.txt": "\n",
                      module + "/part.cmake": "add_library(a a.cc)\n"}
            self.assertEqual([], violations(beside))


if __name__ == "__main__":
    unittest.main()
