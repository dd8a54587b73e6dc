#!/usr/bin/env python3
"""Layering and style as a test: tidy.py [ROOT]. One line per violation, exit status 1 if there is any.

The rules' tables are in tables.py, the rules in rules.py; those for the pages in pages.py.
"""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import cpp_text  # noqa: E402
import pages  # noqa: E402
import rules  # noqa: E402
import tree  # noqa: E402

SOURCE_RULES = (
    rules.include_arrows, rules.fenced_headers, rules.fenced_words, rules.hot_files, rules.namespaces,
    rules.header_shape, rules.function_pointers,
)


def check(root):
    """Every violation under root as (path, line, rule, what)."""
    paths = tree.paths(root)
    known = set(paths)
    found = list(rules.top_level(paths))
    cmake_files, code = [], {}
    for file in filter(None, (tree.read(root, path) for path in paths)):
        found += rules.line_shape(file)
        found += rules.machine_words(file)
        if file.is_cmake:
            cmake_files.append(file)
            found += rules.cmake_globs(file)
        if file.is_cpp:
            source = rules.Source(file)
            code[file.path] = source.code
            for rule in SOURCE_RULES:
                found += rule(source)
            found += rules.own_header_first(source, known)
    found += rules.function_shape(cpp_text.functions_of(root, code))
    found += rules.cmake_lists(paths, cmake_files)
    found += pages.check(root, paths, lambda path: tree.read(root, path))
    return sorted(set(found))


def main():
    default = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else default)
    try:
        found = check(root)
    except RuntimeError as error:
        print("tidy: %s" % error)
        return 1
    for path, line, rule, what in found:
        print("%s:%d: %s: %s" % (path, line, rule, what))
    if not found:
        print("tidy: %d files, no violation" % len(tree.paths(root)))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
