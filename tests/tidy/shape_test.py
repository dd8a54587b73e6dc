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
    """Returns (violations, figures) of a tree of these files."""
    with small_tree.small_tree(files) as root:
        return tidy.look(root)


def rules_of(files):
    return [(path, line, rule) for path, line, rule, _ in look(files)[0]]


class Figures(unittest.TestCase):
    def values(self, name, *trees):
        """Returns the figure of each tree; whatever is beyond its limit is said to be."""
        found = []
        for files in trees:
            figures = look(files)[1]
            beyond = {each.split(":")[0] for each in shape.beyond(figures)}
            for each in figures:
                limit, value = tables.FIGURES[each.name].limit, each.value
                worse = value < limit if each.name in tables.FIGURES_AT_LEAST else value > limit
                self.assertEqual(worse, each.name in beyond)
            found += [each.value for each in figures if each.name == name]
        return found

    def test_percentile(self):
        self.assertEqual(9, shape.percentile_90(range(1, 11)))
        self.assertEqual(10, shape.percentile_90(range(1, 12)))
        self.assertEqual(5, shape.percentile_90([5]))

    def test_lengths(self):
        text = "void f() {\n  const auto g = [] {\n    h();\n  };\n}\nvoid i() {}\n"
        self.assertEqual([5], self.values("function lines p90", {"engine/a.cc": text}))
        for before in ("void f() {\n", "TEST(Suite, Name) {\n", "const auto kF = [] {\n",
                       "template <typename T>  // {\nbool operator==(T a, T b) {\n"):
            text = "int a;\n" + before + "  g();\n" * 59 + "}\n"
            figure = next(each for each in look({"engine/a.cc": text})[1]
                          if each.name == "longest function")
            self.assertEqual((60 + before.count("\n"), "engine/a.cc:2"), figure[1:])
        for path in ("engine/a.cc", "perf/run.py", "tests/x.sh"):
            mark = "// a\n" if path.endswith(".cc") else "# a\n"
            self.assertEqual([501], self.values("largest file", {path: mark * 501}))
        self.assertEqual([2], self.values("file lines p90", {
            "engine/%d.cc" % n: "// a\n" * n for n in range(1, 3)}))

    def test_assertions_of_the_product(self):
        text = "void f() {\n  CHECK(a); DCHECK(b);  // CHECK(c)\n}\n"
        self.assertEqual([2, 0], self.values("assertions", {"engine/a.cc": text}, {
            "perf/a.cc": text, "src/base/check.h": "#pragma once\n#define CHECK(a) a\n"}))

    def test_files_of_one_class(self):
        files = {"engine/a.h": CLASS % "  void f();\n  void in_it() {}\n"}
        files.update({"engine/a%d.cc" % n: "void A::f() {}\n" for n in range(4)})
        self.assertEqual([4], self.values("files of one class", files))

    def test_public_methods(self):
        body = (" public:\n  A();\n  ~A();\n  bool operator==(int);\n  void f();\n"
                "  int g() { return 1; }\n private:\n  void h();\n")
        files = {"engine/a.h": CLASS % body, "engine/a.cc": "void A::f() {}\nvoid A::h() {}\n",
                 "tests/a.h": CLASS.replace("class A", "class B") % (body + body)}
        self.assertEqual([2], self.values("public methods of one class", files))
        with mock.patch.dict(tables.FIGURES, {"public methods of one class": tables.Limit(1, 1)}):
            self.values("public methods of one class", files)

    def test_small_headers(self):
        self.assertEqual([1], self.values("small headers", {
            "engine/a.h": CLASS % ("\n" * 24), "engine/b.h": CLASS % ("\n" * 25),
            "perf/a.h": CLASS % ""}))

    def test_forwarders(self):
        names = "abcde"
        base = "namespace verbs {\nclass Provider {\n public:\n%s};\n}\n" % "".join(
            "  virtual int %s() = 0;\n" % name for name in names)
        own = "".join("int %s::%s() { return real_.%s(); }\n" % (owner, name, name)
                      for owner, some in (("A", names[:4]), ("B", names[:3])) for name in some)
        self.assertEqual([1], self.values("forwarders of Provider", {
            "tests/a.h": "#pragma once\n// A.\n" + base + "".join(
                "class %s : public verbs::Provider {\n%s};\n" % (
                    owner, "".join("  int %s();\n" % name for name in names)) for owner in "AB"),
            "tests/a.cc": own}))

    def test_broken_rules_are_counted(self):
        text = "// What is it?\nconstexpr int kAMs = 1;\n"
        for name in ("riddles", "times outside one header"):
            self.assertEqual([1], self.values(name, {"engine/a.cc": text}))


class FilePointers(unittest.TestCase):
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
