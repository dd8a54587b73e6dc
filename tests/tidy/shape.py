"""The shape of the whole house: figures over all functions, files and classes, with bars.

`Shape` takes what the other rules have read. Violations that have a place are `violations()`;
the figures that only the whole tree has are `figures()`, and `beyond()` names those over a bar.
"""

import collections
import os
import re

import rules
import tables

Figure = collections.namedtuple("Figure", "name value bar allowed at_least", defaults=(False,))
NAMED_FILE = re.compile(r"(?<![\w/<.${}*-])((?:[\w.-]+/)*[\w-]+\.(?:h|cc|py|sh|cmake))(?![\w/(*-])")
COMMENT_ENDS_WITH_FILE = re.compile(r"\(([\w/-]+\.(?:h|cc))\)[.,;]?\s*$")
# "// ---- Lost paths (FILE; with the token)." or "// FILE: what it is for." inside a class.
HEADING = re.compile(
    r"\s*//(?: -{3,4} [^(]*\(| -{3,4} | )(?P<file>[\w/-]+\.(?:h|cc))(?P<end>[;:,.)]|\s*$)"
)
HEADING_ENDS = re.compile(r"\s*(?:// -{3,4} |public:|private:|protected:|};)")


def percentile_90(values):
    """Returns the smallest value that nine tenths of the values do not exceed."""
    ordered = sorted(values)
    return ordered[(9 * len(ordered) + 9) // 10 - 1] if ordered else 0


class Shape:
    """files: every tree.File; sources: a rules.Source per C++ path; scan: cpp_text.scan()'s."""

    def __init__(self, paths, files, sources, scan):
        self.names = {os.path.basename(path) for path in paths}
        self.paths = set(paths)
        self.files = files
        self.sources = sources
        self.scan = scan
        self.class_files = self._class_files()
        self.arrows_back = list(self._arrows_back())
        self.wrong_pointers = list(self._wrong_names()) + list(self._wrong_places())

    def violations(self):
        for owner, paths in sorted(self.class_files.items()):
            allowed = tables.CLASS_FILES_STILL.get(owner, tables.CLASS_FILES_MAX)
            if len(paths) > allowed:
                what = "methods of %s lie in %d files, at most %d" % (owner, len(paths), allowed)
                yield min(paths), 1, "class-files", what
        if len(self.arrows_back) > tables.ARROWS_BACK_STILL:
            yield from self.arrows_back
        if len(self.wrong_pointers) > tables.WRONG_POINTERS_STILL:
            yield from self.wrong_pointers

    def figures(self):
        lengths = [each.length for each in self.scan.functions if each.length and each.is_named]
        file_lengths = [len(file.lines) for file in self.files if file.is_cpp or file.is_script]
        wide = sum(1 for file in self.files if file.is_code for _ in rules.wide_lines(file))
        return [
            Figure("function lines p90", percentile_90(lengths), 18, tables.FUNCTION_P90_STILL),
            _bar("longest", max(lengths, default=0), tables.FUNCTION_LINES_MAX),
            Figure("file lines p90", percentile_90(file_lengths), 220, tables.FILE_P90_STILL),
            _bar("largest", max(file_lengths, default=0), tables.FILE_LINES_MAX),
            Figure("files of one class", max(map(len, self.class_files.values()), default=0),
                   tables.CLASS_FILES_MAX, max(tables.CLASS_FILES_STILL.values(), default=3)),
            Figure("arrows back in engine", len(self.arrows_back), 0, tables.ARROWS_BACK_STILL),
            _bar("wide lines", wide, 0),
            Figure("wrong file pointers", len(self.wrong_pointers), 0,
                   tables.WRONG_POINTERS_STILL),
            Figure("assertions", self._assertions(), 250, tables.ASSERTIONS_STILL, at_least=True),
        ]

    def _class_files(self):
        """Returns for each class the files with methods of it, besides the one that has the class
        itself."""
        found = collections.defaultdict(set)
        for function in self.scan.functions:
            if function.owner and function.length:
                if function.path not in self.scan.bodies.get(function.owner, ()):
                    found[function.owner].add(function.path)
        return found

    def _arrows_back(self):
        for source in self.sources.values():
            height = _storey(rules.module_of(source.path))
            for line, bracket, name in source.includes:
                target = _storey(rules.target_module(bracket, name))
                if None not in (height, target) and target > height:
                    what = "%s lies in a module above" % name
                    yield source.path, line, "arrow-back", what

    def _wrong_names(self):
        for file in self.files:
            for number, comment in rules.comments(file, self.sources.get(file.path)):
                for name in NAMED_FILE.findall(comment):
                    if not self._exists(name):
                        yield file.path, number, "file-pointer", "there is no file %s" % name

    def _exists(self, name):
        if name in tables.FOREIGN_FILES:
            return True
        if "/" not in name:
            return name in self.names
        return any(path == name or path.endswith("/" + name) for path in self.paths)

    def _wrong_places(self):
        """Yields comments that say in which file a method is defined, if it is not defined
        there."""
        defined = collections.defaultdict(set)
        prototypes = collections.defaultdict(dict)
        for function in self.scan.functions:
            if function.length:
                defined[function.owner, function.name].add(os.path.basename(function.path))
            elif function.owner:
                prototypes[function.path][function.name_line] = function
        for path, by_line in prototypes.items():
            for line, name in sorted(_pointed_at(self.sources[path], by_line).items()):
                function = by_line[line]
                places = defined.get((function.owner, function.name))
                if places and os.path.basename(name) not in places:
                    what = "%s is defined in %s" % (function.name, ", ".join(sorted(places)))
                    yield path, line, "file-pointer", what

    def _assertions(self):
        return sum(
            len(re.findall(r"\bD?CHECK(?:_\w+)?\s*\(", source.statements))
            for source in self.sources.values()
            if source.path.startswith(tables.PRODUCT_ROOMS)
        )


def _bar(name, value, bar):
    return Figure(name, value, bar, bar)


def _storey(module):
    """Returns how high a module of the engine lies; None for any other module."""
    return next((n for n, modules in enumerate(tables.ENGINE_STOREYS) if module in modules), None)


def _pointed_at(source, by_line):
    """Returns for a prototype's line the file that a comment names as the place of its
    definition."""
    found, heading = {}, None
    lines, code = source.file.lines, source.code.split("\n")
    waiting = None  # the file that the comment just above ends with
    for number, line in enumerate(lines, 1):
        if HEADING_ENDS.match(line):
            heading = None
        named = HEADING.match(line)
        comment_only = not code[number - 1].strip()
        if named and comment_only:
            heading, waiting = named.group("file"), None
            continue
        ends = COMMENT_ENDS_WITH_FILE.search(line)
        if number in by_line:
            place = ends.group(1) if ends else waiting or heading
            if place:
                found[number] = place
        if not comment_only:
            waiting = None if ";" in code[number - 1] else waiting
        elif line.strip():
            waiting = ends.group(1) if ends else None
    return found


def beyond(figures):
    """Returns the figures that are worse than the tree may still be, as sentences."""
    for name, value, _, allowed, at_least in figures:
        if value < allowed if at_least else value > allowed:
            word = "least" if at_least else "most"
            yield "%s: %d, at %s %d" % (name, value, word, allowed)


def line_of_figures(figures):
    return ", ".join("%s %d (bar %d)" % (each.name, each.value, each.bar) for each in figures)
