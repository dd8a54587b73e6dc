#!/usr/bin/env python3
"""Prints where the time of the last tests/run went: times.py [BUILD] (default: build/release).

Prints Markdown tables, from BUILD/.ninja_log and from the results that tests/run leaves beside
BUILD: seconds of compiling and linking by folder, the dearest build steps, the dearest tests. Steps
and tests run beside one another, so their seconds add up to more than the clock's. Exit status: 0;
1 if nothing was built there; 2 on wrong usage."""

import collections
import os
import sys
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEAREST_STEPS = 10
TEST_S_MIN = 5
FOLDERS = {"src": "product", "engine": "product", "plugin": "product", "tuning": "product"}


def build_steps(build):
    """[(seconds, output)] of the last run of each command in ninja's log."""
    last = {}
    with open(os.path.join(build, ".ninja_log"), encoding="utf-8") as log:
        for line in log:
            fields = line.rstrip("\n").split("\t")
            if len(fields) == 5:
                begin, end, _, output, command = fields
                last[begin, end, command] = ((int(end) - int(begin)) / 1000, output)
    return sorted(last.values(), reverse=True)


def folder_of(output):
    if not output.endswith(".o"):
        return "links"
    parts = output.split("/")
    return FOLDERS.get(parts[0]) or ("/".join(parts[:2]) if parts[0] == "tests" else parts[0])


def tests_of(file):
    """[(seconds, name)] of a JUnit file of ctest's."""
    root = xml.etree.ElementTree.parse(file).getroot()
    return sorted(((float(case.get("time")), case.get("name")) for case in root.iter("testcase")
                   if case.get("status") == "run"), reverse=True)


def table(heads, rows):
    print("| %s |\n|%s" % (" | ".join(heads), "---|" * len(heads)))
    for row in rows:
        print("| %s |" % " | ".join(str(cell) for cell in row))
    print()


def print_build(build):
    steps = build_steps(build)
    sums = collections.defaultdict(lambda: [0, 0.0])
    for seconds, output in steps:
        sums[folder_of(output)][0] += 1
        sums[folder_of(output)][1] += seconds
    rows = sorted(((name, count, "%.0f" % seconds) for name, (count, seconds) in sums.items()),
                  key=lambda row: -float(row[2]))
    rows.append(("all", len(steps), "%.0f" % sum(seconds for seconds, _ in steps)))
    table(("compiled", "steps", "seconds"), rows)
    table(("dearest build steps", "seconds"),
          [("`%s`" % output.replace("CMakeFiles/", ""), "%.1f" % seconds)
           for seconds, output in steps[:DEAREST_STEPS]])


def print_tests(build):
    for step in ("release", "lab", "asan", "tsan"):
        file = os.path.join(os.path.dirname(build), step + ".test.log.xml")
        if not os.path.exists(file):
            continue
        tests = tests_of(file)
        dear = [(name, "%.1f" % seconds) for seconds, name in tests if seconds >= TEST_S_MIN]
        rest = sum(seconds for seconds, _ in tests if seconds < TEST_S_MIN)
        dear.append(("the other %d" % (len(tests) - len(dear)), "%.1f" % rest))
        table(("tests of step %s" % step, "seconds"), dear)


def main(arguments):
    if arguments[:1] in (["--help"], ["-h"]):
        print(__doc__)
        return 0
    if len(arguments) > 1 or arguments[:1] != [] and arguments[0].startswith("-"):
        print("tests/times.py: '%s' is no option; wanted: --help, or one folder" % arguments[-1],
              file=sys.stderr)
        return 2
    build = os.path.abspath(arguments[0] if arguments else os.path.join(ROOT, "build/release"))
    if not os.path.exists(os.path.join(build, ".ninja_log")):
        print("tests/times.py: %s: nothing was built there" % build, file=sys.stderr)
        return 1
    print_build(build)
    print_tests(build)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
