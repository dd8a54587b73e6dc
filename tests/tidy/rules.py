"""The rules. Each takes the files and yields (path, line, rule, what)."""

import os
import re

import cpp_text
import tables

INCLUDE = re.compile(r'\s*#\s*include(?:_next)?\s*(["<])([^">]+)[">]')


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def module_of(path):
    """Returns the module that a path or an include lies in; None if it lies in none of ours."""
    modules = [module for module in tables.ARROWS if path.startswith(module + "/")]
    return max(modules, key=len, default=None)


class Source:
    """One C++ file, scanned once for every rule."""

    def __init__(self, file):
        self.file = file
        self.path = file.path
        self.code = cpp_text.code_of(file.text)
        self.statements = cpp_text.without_directives(self.code)
        self.includes = self._includes()

    def _includes(self):
        """Returns (line, bracket, name) of every include that is not in a comment or literal."""
        found = []
        for number, (raw, code) in enumerate(zip(self.file.lines, self.code.split("\n")), 1):
            include = INCLUDE.match(raw)
            if include and code.lstrip().startswith("#"):
                found.append((number, include.group(1), include.group(2)))
        return found


def top_level(files):
    for entry in sorted({path.split("/")[0] for path in files}):
        if entry not in tables.TOP_LEVEL and not entry.startswith("."):
            yield entry, 1, "top-level", "%s is not an entry the house knows" % entry


def target_module(bracket, name):
    """Returns the module of an include as written; "" if a quoted one names none."""
    if name.startswith("mesh/"):
        return "include/mesh" if bracket == "<" else ""
    module = module_of(name)
    if bracket == "<":
        # Only <mesh/...> is ours in angle brackets; a module named like this is still an arrow.
        return module
    return module or ""


def include_arrows(source):
    module = module_of(source.path)
    for line, bracket, name in source.includes:
        target = target_module(bracket, name)
        if target is None:
            continue
        if target == "":
            what = 'write "module/file.h" or <mesh/file.h>, not "%s"' % name
            yield source.path, line, "include-form", what
        elif module is None:
            yield source.path, line, "include-arrow", "a source outside every module"
        elif target != module and tables.ARROWS[module] is not None and target not in tables.ARROWS[
            module]:
            what = "%s may not include %s (%s)" % (module, target, name)
            yield source.path, line, "include-arrow", what


def fenced_headers(source):
    for line, bracket, name in source.includes:
        for rule, pattern, allowed in tables.FENCED_HEADERS:
            if re.match(pattern, bracket + name) and not re.match(allowed, source.path):
                yield source.path, line, rule, "%s may not be included here" % name


def fenced_words(source):
    for rule, pattern, allowed in tables.FENCED_WORDS:
        if re.match(allowed, source.path):
            continue
        for found in re.finditer(pattern, source.code):
            yield source.path, line_of(source.code,
                                       found.start()), rule, "%s has no place here" % found.group()


def names_out_of_use(source):
    if not source.path.startswith(tables.PRODUCT_MODULES):
        return
    for pattern, instead in tables.OUT_OF_USE:
        for found in re.finditer(r"\b(?:%s)\b" % pattern, source.statements):
            line = line_of(source.code, found.start())
            what = "%s is out of use; write %s" % (found.group(), instead)
            yield source.path, line, "name-out-of-use", what


def hot_files(source):
    if source.path not in tables.HOT_FILES:
        return
    for name, pattern in tables.HOT_FORBIDDEN:
        for found in re.finditer(pattern, source.statements):
            yield source.path, line_of(source.code,
                                       found.start()), "hot-file", "%s on a message's way" % name


def header_shape(source):
    lines = source.file.lines
    if not source.file.is_header:
        return
    if lines[:1] != ["#pragma once"]:
        yield source.path, 1, "pragma-once", "a header begins with #pragma once"
        return
    comment = []
    for line in lines[1:]:
        if not line.startswith("//"):
            break
        comment.append(line)
    if not comment:
        yield source.path, 2, "header-comment", "behind #pragma once stands what the header is for"
    elif source.path.startswith(tables.PRODUCT_MODULES) and not any("Thread:" in line
                                                                    for line in comment):
        what = 'the first comment has a line "Thread:" that says who may call'
        yield source.path, 2, "header-thread", what


def own_header_first(source, files):
    stem, suffix = os.path.splitext(source.path)
    if suffix != ".cc" or not source.includes:
        return
    written = [name for _, _, name in source.includes]
    public = "mesh/%s.h" % os.path.basename(stem)
    own = None
    if stem + ".h" in files:
        own = stem + ".h"
    elif "include/" + public in files and public in written and tables.ARROWS.get(
        module_of(source.path)) is not None:
        own = public
    if own and written[0] != own:
        yield source.path, source.includes[0][0], "own-header", "%s comes first" % own


def line_shape(file):
    """Trailing space, width, newline at the file's end, work left without an issue. clang-format
    sees to the rest of a C++ file."""
    if file.text and not file.text.endswith("\n"):
        yield file.path, len(file.lines), "final-newline", "the file ends without one"
    for number, line in enumerate(file.lines, 1):
        if line != line.rstrip() and file.path != "LICENSE":
            yield file.path, number, "trailing-space", "space at the end of the line"
        if file.is_code and len(line) > tables.LINE_COLUMNS_MAX:
            yield file.path, number, "line-width", "%d columns" % len(line)
        if file.is_code and re.search(tables.UNFILED_TODO, line):
            yield file.path, number, "todo", "work left over names its issue: TODO(issue)"


def machine_words(file):
    for number, line in enumerate(file.lines, 1):
        found = re.search(tables.MACHINE_WORDS, line)
        if found:
            yield file.path, number, "machine-path", "%s is of one machine only" % found.group()
