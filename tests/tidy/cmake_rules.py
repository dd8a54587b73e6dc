"""The rules for CMake files: what they name, and how. Each yields (path, line, rule, what)."""

import posixpath
import re

import tables


def cmake_globs(file):
    for number, line in enumerate(file.lines, 1):
        if re.search(r"(?i)\bfile\s*\(\s*GLOB", line.split("#")[0]):
            yield file.path, number, "cmake-glob", "sources are listed by hand"


def cmake_lists(files, cmake_files):
    """Every source of the product is named in some CMake file, relative to it or from the root."""
    named = set()
    for file in cmake_files:
        for line in file.lines:
            for name in re.findall(r"[\w./${}+-]+\.cc\b", line.split("#")[0]):
                name = re.sub(r"^.*\}/", "", name)
                named |= {name,
                          posixpath.normpath(posixpath.join(posixpath.dirname(file.path), name))}
    for path in files:
        if path.endswith(".cc") and path.startswith(
            tables.CMAKE_LISTED_MODULES) and path not in named:
            yield path, 1, "cmake-unlisted", "no CMake file names it"
