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
GREEN = (
    "[a](../README.md) [b](turn.h) [c](https://example.org/x) [d](../README.md#one-page)\n",
    "[a](#one-page) [b](../README.md#what-it-is-and-why)\n```\n[x](nowhere.md)\n```\n",
    "`engine/turn.h`, `turn.h`, `engine/*.h`, `engine/{turn,wire}.h`, `engine/turn`\n",
    "`unit/engine/wire_test`, `perf/run --model`, `~/.config/x.json`, `10.0.0.1/24`\n",
    "```sh\nperf/run\nbuild/release/perf/mesh_perf/mesh_perf -b 1 # perf/run.\n$PWD/perf/x\n```\n",
    "a" * 100 + "\n| " + "a" * 200 + " |\n",
)
# Rule, line, text.
RED = (
    ("page-link", 2, "\n[a](README2.md)\n"),
    ("page-link", 1, "[a](../README.md#two-pages)\n"),
    ("page-path", 1, "`gone.h`\n"),
    ("page-path", 1, "`perf/walk --model`\n"),
    ("page-path", 1, "`engine/{turn,gone}.h`\n"),
    ("page-path", 2, "```sh\nbuild/release/perf/gone/mesh_perf\n```\n"),
    ("page-width", 1, "a" * 101 + "\n"),
)


def violations(text, path="engine/README.md", rules=RULES):
    """Returns (rule, line) for everything wrong with a page of this text."""
    page = pages.Page(tree.File(path, text), FILES)
    return [(name, line) for rule in rules for _, line, name, _ in rule(page)]


class Pages(unittest.TestCase):
    def test_each_rule_is_red_on_its_violation_alone(self):
        for rule, line, text in RED:
            self.assertEqual([(rule, line)], violations(text), text)

    def test_what_is_allowed_is_green(self):
        for text in GREEN:
            self.assertEqual([], violations(text), text)

    def test_every_header_of_a_module_is_in_its_table(self):
        for text, red in (("`c*.h`, `{api,calls}.h`\n", []),
                          ("`calls.h`\n", [("page-unlisted", 1)])):
            self.assertEqual(red, violations(text, "plugin/README.md", (pages.unlisted,)))

    def test_the_first_page_is_short(self):
        self.assertEqual([], violations("a\n" * 130, "README.md"))
        self.assertEqual([("page-lines", 131)], violations("a\n" * 131, "README.md"))


if __name__ == "__main__":
    unittest.main()
