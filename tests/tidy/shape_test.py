#!/usr/bin/env python3
"""The figures of the whole tree: each goes red beyond its bar, and pointers are held to the
code."""

import os
import sys
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import shape  # noqa: E402
import small_tree  # noqa: E402
import tables  # noqa: E402
import tidy  # noqa: E402

CLASS = "#pragma once\n// A class.\n// Thread: any.\nclass A {\n%s};\n"


def look(files):
    """Returns (violations, Shape) of a tree of these files."""
    with small_tree.small_tree(files) as root:
        return tidy.look(root)


def rules_of(files):
    return [(path, line, rule) for path, line, rule, _ in look(files)[0]]


def figure(files, name):
    return next(each for each in look(files)[1].figures() if each.name == name)


class Figures(unittest.TestCase):
    def setUp(self):
        still = {"FUNCTION_P90_STILL": 18, "FILE_P90_STILL": 220, "ASSERTIONS_STILL": 250,
                 "ARROWS_BACK_STILL": 0, "WRONG_POINTERS_STILL": 0, "CLASS_FILES_STILL": {}}
        patch = mock.patch.multiple(tables, **still)
        patch.start()
        self.addCleanup(patch.stop)

    def red(self, files, name):
        beyond = list(shape.beyond(look(files)[1].figures()))
        self.assertTrue(any(each.startswith(name + ":") for each in beyond), beyond)

    def green(self, files, name):
        beyond = list(shape.beyond(look(files)[1].figures()))
        self.assertFalse(any(each.startswith(name + ":") for each in beyond), beyond)

    def test_percentile(self):
        self.assertEqual(9, shape.percentile_90(range(1, 11)))
        self.assertEqual(10, shape.percentile_90(range(1, 12)))
        self.assertEqual(5, shape.percentile_90([5]))

    def test_function_p90(self):
        short = "void f() {\n  g();\n}\n"
        long = "void f() {\n%s}\n" % ("  g();\n" * 17)  # 19 lines
        self.green({"engine/a.cc": short * 18 + long * 2}, "function lines p90")
        self.red({"engine/a.cc": short * 17 + long * 2}, "function lines p90")

    def test_lambdas_count_with_their_function_only(self):
        text = "void f() {\n  const auto g = [] {\n    h();\n  };\n}\n"
        self.assertEqual(5, figure({"engine/a.cc": text}, "function lines p90").value)

    def test_file_p90(self):
        files = {"engine/a%d.cc" % n: "// a\n" for n in range(18)}
        files["engine/long.cc"] = "// a\n" * 221
        self.green(dict(files, **{"engine/long2.cc": "// a\n" * 221}), "file lines p90")
        files.pop("engine/a0.cc")
        self.red(dict(files, **{"engine/long2.cc": "// a\n" * 221}), "file lines p90")

    def test_longest_and_largest(self):
        self.red({"engine/a.cc": "void f() {\n%s}\n" % ("  g();\n" * 59)}, "longest")
        self.red({"engine/a.cc": "// a\n" * 401}, "largest")
        self.green({"engine/a.cc": "// a\n" * 400}, "largest")

    def test_wide_lines(self):
        wide = {"engine/a.cc": "// %s\n" % ("a" * 98)}
        self.red(wide, "wide lines")
        self.assertEqual([("engine/a.cc", 1, "line-width")], rules_of(wide))

    def test_assertions_of_the_product(self):
        text = "void f() {\n%s}\n" % ("  CHECK(a); DCHECK(b);\n" * 5)
        files = {"engine/a%d.cc" % n: text for n in range(25)}
        self.green(files, "assertions")
        files["engine/a0.cc"] = text.replace("CHECK(a)", "/* CHECK(a) */", 1)
        self.red(files, "assertions")
        elsewhere = {"perf/a.cc": text, "src/base/check.h": "#pragma once\n#define CHECK(a) a\n",
                     "tests/a.cc": text, "engine/a.cc": "static_assert(true);\n"}
        self.assertEqual(0, figure(elsewhere, "assertions").value)

    def test_arrows_back(self):
        modules = [module for storey in tables.ENGINE_STOREYS for module in storey]
        for below, above in (("engine/message", "engine/data"), ("engine/data", "engine/link"),
                             ("engine/control", "engine"), ("engine/link", "engine")):
            self.assertIn(below, modules)
            with self.subTest(below=below, above=above):
                found = rules_of({below + "/a.cc": '#include "%s/b.h"\n' % above})
                self.assertIn((below + "/a.cc", 1, "arrow-back"), found)
                found = rules_of({above + "/a.cc": '#include "%s/b.h"\n' % below})
                self.assertNotIn((above + "/a.cc", 1, "arrow-back"), found)

    def test_files_of_one_class(self):
        files = {"engine/a.h": CLASS % "  void f();\n  void in_it() {}\n"}
        files.update({"engine/a%d.cc" % n: "void A::f() {}\n" for n in range(3)})
        self.assertEqual([], rules_of(files))
        self.green(files, "files of one class")
        files["engine/a3.cc"] = "void A::f() {}\n"
        self.assertEqual([("engine/a0.cc", 1, "class-files")], rules_of(files))
        self.red(files, "files of one class")
        with mock.patch.object(tables, "CLASS_FILES_STILL", {"A": 4}):
            self.assertEqual([], rules_of(files))


class FilePointers(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.object(tables, "WRONG_POINTERS_STILL", 0)
        patch.start()
        self.addCleanup(patch.stop)

    def wrong_lines(self, body):
        """Returns the lines of engine/a.h with a wrong pointer; f and g are in a.cc, h in b.cc."""
        files = {"engine/a.h": CLASS % body, "engine/a.cc": "void A::f() {}\nvoid A::g() {}\n",
                 "engine/b.cc": "void A::h() {}\n"}
        found = look(files)[0]
        self.assertTrue(all(each[0] == "engine/a.h" for each in found), found)
        return [line - 4 for _, line, rule, _ in found if rule == "file-pointer"]

    def test_a_named_file_exists(self):
        for path in ("engine/a.cc", "tests/a.py", "tests/run.sh", "CMakeLists.txt"):
            mark = "//" if path.endswith(".cc") else "#"
            for name, right in (("b.h", True), ("engine/b.h", True), ("c.h", False),
                                ("tests/b.h", False), ("<c.h>", True), ("verbs.h", True)):
                with self.subTest(path=path, name=name):
                    files = {"engine/b.h": CLASS % "", path: "%s see (%s).\n" % (mark, name)}
                    expected = [] if right else [(path, 1, "file-pointer")]
                    if path == "CMakeLists.txt":
                        files[path] = "%s see (%s).\n" % (mark, name)
                    self.assertEqual(expected, rules_of(files))

    def test_text_that_is_no_comment_points_nowhere(self):
        self.assertEqual([], rules_of({"engine/a.cc": 'const char* k = "(c.h)";\n'}))

    def test_a_trailing_pointer(self):
        self.assertEqual([], self.wrong_lines("  void f();  // does f (a.cc)\n"))
        self.assertEqual([1], self.wrong_lines("  void f();  // does f (b.cc)\n"))

    def test_a_pointer_above(self):
        self.assertEqual([], self.wrong_lines("  // Does f. (a.cc)\n  void f();\n"))
        self.assertEqual([2], self.wrong_lines("  // Does f. (b.cc)\n  void f();\n  void g();\n"))
        self.assertEqual([], self.wrong_lines("  // b.cc\n  // Does f. (a.cc)\n  void f();\n"))

    def test_headings(self):
        for heading in ("// b.cc", "// b.cc: for h.", "// ---- b.cc",
                        "// ---- Ends (b.cc; token)."):
            with self.subTest(heading=heading):
                self.assertEqual([], self.wrong_lines("  %s\n  void h();\n" % heading))
                body = "  %s\n  void h();\n  int n;\n\n  void f();\n private:\n  void g();\n"
                self.assertEqual([5], self.wrong_lines(body % heading))


if __name__ == "__main__":
    unittest.main()
