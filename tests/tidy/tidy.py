#!/usr/bin/env python3
"""Layering and style as a test: tidy.py [ROOT]. One line per violation, exit status 1 if there is
any.

The rules' tables are in tables.py, the rules in rules.py; those for CMake files are in
cmake_rules.py, those for the pages in pages.py.
"""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import cmake_rules  # noqa: E402
import comment_rules  # noqa: E402
import pages  # noqa: E402
import rules  # noqa: E402
import time_rules  # noqa: E402
import tree  # noqa: E402

SOURCE_RULES = (
    rules.include_arrows, rules.fenced_headers, rules.fenced_words, rules.hot_files,
    rules.header_shape, rules.names_out_of_use,
    time_rules.outside_header,
)


def check(root):
    """Returns every violation under root as (path, line, rule, what)."""
    paths = tree.paths(root)
    known = set(paths)
    found = list(rules.top_level(paths))
    files = list(filter(None, (tree.read(root, path) for path in paths)))
    cmake_files = [file for file in files if file.is_cmake]
    for file in files:
        found += rules.line_shape(file)
        found += rules.machine_words(file)
        found += comment_rules.riddles(file)
        if file.is_cmake:
            found += cmake_rules.cmake_globs(file)
        if file.is_cpp:
            source = rules.Source(file)
            for rule in SOURCE_RULES:
                found += rule(source)
            found += rules.own_header_first(source, known)
    found += cmake_rules.cmake_lists(paths, cmake_files)
    found += pages.check(root, paths, lambda path: tree.read(root, path))
    return sorted(set(found))


def main():
    default = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    found = check(os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else default))
    for path, line, rule, what in found:
        print("%s:%d: %s: %s" % (path, line, rule, what))
    print("tidy: %d violations" % len(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
