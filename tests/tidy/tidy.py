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
import cpp_text  # noqa: E402
import pages  # noqa: E402
import rules  # noqa: E402
import shape  # noqa: E402
import time_rules  # noqa: E402
import tree  # noqa: E402

SOURCE_RULES = (
    rules.include_arrows, rules.fenced_headers, rules.fenced_words, rules.hot_files,
    rules.namespaces, rules.header_shape, rules.function_pointers, rules.names_out_of_use,
    comment_rules.riddles, time_rules.outside_header,
)


def look(root):
    """(every violation under root as (path, line, rule, what), the tree's shape.Shape)"""
    paths = tree.paths(root)
    known = set(paths)
    found = list(rules.top_level(paths))
    files = list(filter(None, (tree.read(root, path) for path in paths)))
    cmake_files, sources = [], {}
    for file in files:
        found += rules.line_shape(file)
        found += rules.machine_words(file)
        if file.is_cmake:
            cmake_files.append(file)
            found += cmake_rules.cmake_globs(file)
        if file.is_cpp:
            source = rules.Source(file)
            sources[file.path] = source
            for rule in SOURCE_RULES:
                found += rule(source)
            found += rules.own_header_first(source, known)
    scan = cpp_text.scan(root, {path: source.code for path, source in sources.items()})
    found += rules.function_shape(scan.functions)
    whole = shape.Shape(paths, files, sources, scan)
    found += whole.violations()
    found += cmake_rules.cmake_lists(paths, cmake_files)
    found += time_rules.page_table({file.path: file.text for file in files})
    found += pages.check(root, paths, lambda path: tree.read(root, path))
    return sorted(set(found)), whole


def check(root):
    """Every violation under root that has a place."""
    return look(root)[0]


def main():
    default = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else default)
    try:
        found, whole = look(root)
    except RuntimeError as error:
        print("tidy: %s" % error)
        return 1
    for path, line, rule, what in found:
        print("%s:%d: %s: %s" % (path, line, rule, what))
    figures = whole.figures()
    beyond = list(shape.beyond(figures))
    for sentence in beyond:
        print("tidy: %s" % sentence)
    print("tidy: %s" % shape.line_of_figures(figures))
    if found or beyond:
        return 1
    print("tidy: %d files, no violation" % len(whole.paths))
    return 0


if __name__ == "__main__":
    sys.exit(main())
