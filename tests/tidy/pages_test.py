#!/usr/bin/env python3
"""The rules for the pages, each shown green and red on a page made for it."""

import sys
import unittest

sys.dont_write_bytecode = True

import pages  # noqa: E402
import tree  # noqa: E402

FILES = ["README.md", "engine/README.md", "engine/turn.h", "engine/wire.h", "perf/run",
         "perf/mesh_perf/main.cc", "plugin/api.h", "plugin/calls.h",
         "tests/unit/engine/wire_test.cc"]


RULES = (lambda page: pages.links(page, lambda _: "# One page\n## What `it` is, and why\n"),
         pages.paths, pages.bounds)


def violations(text, path="engine/README.md", rules=RULES):
    """Returns (line, rule) for everything wrong with a page of this text."""
    page = pages.Page(tree.File(path, text), FILES)
    return [(line, name) for rule in rules for _, line, name, _ in rule(page)]


class Pages(unittest.TestCase):
    def green(self, text, path="engine/README.md"):
        self.assertEqual([], violations(text, path))

    def red(self, text, rule, line=1):
        self.assertEqual([(line, rule)], violations(text))

    def test_every_header_of_a_module_is_in_its_table(self):
        for text, red in (("`api.h`\n`calls.h`\n", []), ("`c*.h`, `{api,calls}.h`\n", []),
                          ("`calls.h`\n", [(1, "page-unlisted")])):
            self.assertEqual(red, violations(text, "plugin/README.md", (pages.unlisted,)))

    def test_links(self):
        self.green(
            "[a](../README.md) [b](turn.h) [c](https://example.org/x) [d](../README.md#one-page) "
            "[e](#one-page)\n"
        )
        self.green("[a](../README.md#what-it-is-and-why)\n```\n[x](nowhere.md)\n```\n")
        self.red("\n[a](README2.md)\n", "page-link", 2)
        self.red("[a](../README.md#two-pages)\n", "page-link")

    def test_paths_in_prose(self):
        self.green(
            "`engine/turn.h`, `turn.h`, `engine/*.h`, `engine/{turn,wire}.h`, `engine/turn`\n")
        self.green(
            "`unit/engine/wire_test`, `perf/run --model`, `~/.config/x.json`, "
            "`10.0.0.1/24`, `/etc/x.json`\n"
        )
        self.red("`engine/gone.h`\n", "page-path")
        self.red("`gone.h`\n", "page-path")
        self.red("`perf/walk --model`\n", "page-path")
        self.red("`engine/{turn,gone}.h`\n", "page-path")

    def test_paths_in_commands(self):
        self.green(
            "```sh\nperf/run\nbuild/release/perf/mesh_perf/mesh_perf -b 1 # perf/run.\n"
            "$PWD/perf/x a/perf/x\n```\n"
        )
        self.red("```sh\nperf/walk\n```\n", "page-path", 2)
        self.red("```sh\nbuild/release/perf/gone/mesh_perf\n```\n", "page-path", 2)

    def test_bounds(self):
        self.green("a" * 100 + "\n| " + "a" * 200 + " |\n")
        self.red("a" * 101 + "\n", "page-width")
        self.green("a\n" * 130, "README.md")
        self.assertEqual([(131, "page-lines")], violations("a\n" * 131, "README.md"))


if __name__ == "__main__":
    unittest.main()
