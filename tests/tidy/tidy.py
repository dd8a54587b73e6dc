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
import glossary_rules  # noqa: E402
import pages  # noqa: E402
import pointer_rules  # noqa: E402
import rules  # noqa: E402
import shape  # noqa: E402
import time_rules  # noqa: E402
import tree  # noqa: E402

SOURCE_RULES = (
    rules.include_arrows, rules.fenced_headers, rules.fenced_words, rules.hot_files,
    rules.header_shape, rules.names_out_of_use,
    time_rules.outside_header,
)


def look(root):
    """Returns (every violation under root as (path, line, rule, what), the tree's figures)."""
    paths = tree.paths(root)
    known = set(paths)
    found = list(rules.top_level(paths))
    files = list(filter(None, (tree.read(root, path) for path in paths)))
    cmake_files, sources = [], {}
    for file in files:
        found += rules.line_shape(file)
        found += rules.machine_words(file)
        found += comment_rules.riddles(file)
        found += glossary_rules.replaced(file)
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
    found += pointer_rules.wrong_names(paths, files, sources)
    found += pointer_rules.wrong_places(sources, scan)
    found += cmake_rules.cmake_lists(paths, cmake_files)
    found += time_rules.page_table({file.path: file.text for file in files})
    found += glossary_rules.unused(files)
    found += pages.check(root, paths, lambda path: tree.read(root, path))
    return sorted(set(found)), shape.figures(files, sources, scan, found)


def check(root):
    """Returns every violation under root that has a place."""
    return look(root)[0]


def main():
    default = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else default)
    try:
        found, figures = look(root)
    except RuntimeError as error:
        print("tidy: %s" % error)
        return 1
    print("\n".join(shape.table(figures)))
    for path, line, rule, what in found:
        print("%s:%d: %s: %s" % (path, line, rule, what))
    beyond = list(shape.beyond(figures))
    for sentence in beyond:
        print("tidy: %s" % sentence)
    print("tidy: %d violations, %d figures beyond their limits" % (len(found), len(beyond)))
    return 1 if found or beyond else 0


if __name__ == "__main__":
    sys.exit(main())
