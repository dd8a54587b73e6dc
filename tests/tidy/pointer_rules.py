"""The rules for comments that name files: the file is there, and where a comment tells in which
file a method is defined, it is defined there. Each yields (path, line, rule, what)."""

import collections
import os
import re

import rules
import tables

NAMED_FILE = re.compile(r"(?<![\w/<.${}*-])((?:[\w.-]+/)*[\w-]+\.(?:h|cc|py|sh|cmake))(?![\w/(*-])")
COMMENT_ENDS_WITH_FILE = re.compile(r"\(([\w/-]+\.(?:h|cc))\)[.,;]?\s*$")
# "// ---- Lost paths (FILE; with the token)." or "// FILE: what it is for." inside a class.
HEADING = re.compile(
    r"\s*//(?: -{3,4} [^(]*\(| -{3,4} | )(?P<file>[\w/-]+\.(?:h|cc))(?P<end>[;:,.)]|\s*$)"
)
HEADING_ENDS = re.compile(r"\s*(?:// -{3,4} |public:|private:|protected:|};)")


def wrong_names(paths, files, sources):
    """Yields comments that name a file which is not there."""
    names = {os.path.basename(path) for path in paths} | tables.FOREIGN_FILES
    for file in files:
        for number, comment in rules.comments(file, sources.get(file.path)):
            for name in NAMED_FILE.findall(comment):
                there = name in names or "/" in name and any(
                    ("/" + path).endswith("/" + name) for path in paths)
                if not there:
                    yield file.path, number, "file-pointer", "there is no file %s" % name


def wrong_places(sources, scan):
    """Yields comments that say in which file a method is defined, if it is not defined there."""
    defined = collections.defaultdict(set)
    prototypes = collections.defaultdict(dict)
    for function in scan.functions:
        if function.length:
            defined[function.owner, function.name].add(os.path.basename(function.path))
        elif function.owner:
            prototypes[function.path][function.name_line] = function
    for path, by_line in prototypes.items():
        for line, name in sorted(_pointed_at(sources[path], by_line).items()):
            function = by_line[line]
            places = defined.get((function.owner, function.name))
            if places and os.path.basename(name) not in places:
                what = "%s is defined in %s" % (function.name, ", ".join(sorted(places)))
                yield path, line, "file-pointer", what


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
