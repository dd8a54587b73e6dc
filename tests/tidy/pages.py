"""Rules for the pages (Markdown): links lead somewhere, paths exist, lines and pages keep their
bounds.

Each rule takes the page and yields (path, line, rule, what), as those of rules.py do.
"""

import fnmatch
import os
import posixpath
import re

import tree

COLUMNS_MAX = 100
README_LINES_MAX = 130
MODULES = ("engine", "include", "perf", "plugin", "src", "tests", "tuning")
MODULE_PAGES = ("plugin/README.md", "tuning/README.md")
SUFFIXES = (".h", ".cc", ".py", ".md", ".json", ".txt", ".cmake", ".sh", ".map", ".svg")

LINK = re.compile(r"!?\[[^]]*\]\(([^)\s]+)\)")
SPAN = re.compile(r"`([^`]+)`")
FENCE = re.compile(r"^ *```")
PATH = re.compile(r"[\w.*{},-]+(?:/[\w.*{},-]+)*/?")
MODULE_PATH = re.compile(r"(?<![\w/.~$}-])(?:build/release/)?(?:%s)/[\w./*-]*" % "|".join(MODULES))


class Page:
    """One page with the files of its tree. lines: (number, text, is it within a fence?)."""

    def __init__(self, file, files):
        self.path, self.text = file.path, file.text
        self.folder = posixpath.dirname(file.path)
        self.files = files
        self.lines = []
        fenced = False
        for number, line in enumerate(file.lines, 1):
            if FENCE.match(line):
                self.lines.append((number, line, True))
                fenced = not fenced
            else:
                self.lines.append((number, line, fenced))

    def prose(self):
        return ((number, line) for number, line, fenced in self.lines if not fenced)

    def fenced(self):
        return ((number, line) for number, line,
                fenced in self.lines if fenced and not FENCE.match(line))


def slugs(text):
    """Returns the names by which headings of a page can be linked to."""
    found = set()
    for heading in re.findall(r"(?m)^#+ +(.+?) *$", re.sub(r"(?ms)^ *```.*?^ *```", "", text)):
        found.add(re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-"))
    return found


def _folders(files):
    found = set()
    for path in files:
        while posixpath.dirname(path):
            path = posixpath.dirname(path)
            found.add(path)
    return found


def is_there(path, files):
    """Returns whether a path, which may end with a slash and have * in it, names a file or a
    folder, or the stem of a .h or .cc."""
    path = path.rstrip("/")
    known = set(files) | _folders(files)
    if "*" in path:
        return any(fnmatch.fnmatch(each, path) for each in known)
    return path in known or any(path + suffix in known for suffix in (".h", ".cc"))


def links(page, read):
    """Every link leads to a file and to a heading. read(path) is the text of another page, or
    None."""
    for number, line in page.prose():
        for target in LINK.findall(SPAN.sub("", line)):
            if re.match(r"https?://", target):
                continue
            name, _, anchor = target.partition("#")
            path = posixpath.normpath(posixpath.join(page.folder, name)) if name else page.path
            if not is_there(path, page.files):
                yield page.path, number, "page-link", "%s leads to no file" % target
            elif anchor and anchor not in slugs(read(path) or ""):
                yield page.path, number, "page-link", "%s names no heading of %s" % (target, path)


def _span_paths(span):
    """Returns the paths in a code span: the whole span, or the words of a command that begin with a
    module's name."""
    if PATH.fullmatch(span) and ("/" in span
                                 or span.endswith(SUFFIXES)) and not re.match(r"[\d.]+/", span):
        return [span]
    return MODULE_PATH.findall(span)


def _exists(page, path):
    path = path.rstrip(".,")
    for one in _alternatives(path):
        built = re.match(r"build/release/(.*)/[^/]+$", one)
        if built:  # a program: its folder is the source's
            one = built.group(1)
        elif one.split("/")[0] in ("build", "lib", ".ci"):
            continue
        beside = posixpath.join(page.folder, one) if page.folder else one
        anywhere = "/" not in one and any(posixpath.basename(each) == one for each in page.files)
        if not (anywhere
                or any(is_there(each, page.files) for each in (one, beside, "tests/" + one))):
            return False
    return True


def _alternatives(path):
    """Returns the paths without braces: a/{b,c}.h is a/b.h and a/c.h."""
    braces = re.search(r"\{([^}]*)\}", path)
    if not braces:
        return [path]
    return [path[: braces.start()] + each + path[braces.end():]
            for each in braces.group(1).split(",")]


def paths(page):
    for number, line in page.prose():
        for span in SPAN.findall(line):
            for path in _span_paths(span):
                if not _exists(page, path):
                    yield page.path, number, "page-path", "%s is not there" % path
    for number, line in page.fenced():
        for path in MODULE_PATH.findall(line):
            if not _exists(page, path):
                yield page.path, number, "page-path", "%s is not there" % path


def bounds(page):
    if page.path == "README.md" and len(page.lines) > README_LINES_MAX:
        yield page.path, len(page.lines), "page-lines", "%d lines, at most %d" % (len(page.lines),
                                                                                  README_LINES_MAX)
    for number, line, _ in page.lines:
        if len(line) > COLUMNS_MAX and not line.startswith("|"):
            yield page.path, number, "page-width", "%d columns, at most %d" % (len(line),
                                                                               COLUMNS_MAX)


def unlisted(page):
    """Every header of a module that has a table of its files is named there, or stands for a family
    such as control_*.h."""
    if page.path not in MODULE_PAGES:
        return
    named = [name for _,
             line in page.prose() for span in SPAN.findall(line) for name in _alternatives(span)]
    for path in page.files:
        name = posixpath.basename(path)
        if path.endswith(".h") and posixpath.dirname(path) == page.folder and not any(
            fnmatch.fnmatch(name, each) for each in named):
            yield page.path, 1, "page-unlisted", "%s is not in its table of files" % path


def check(root, files, read):
    """Yields every violation in the pages under root. read(path) is a tree.File, or None."""
    def text_of(path):
        file = read(path) if os.path.isfile(os.path.join(root, path)) else None
        return file.text if file else None

    for path in files:
        if path.endswith(".md"):
            # its folder is there, whatever lies in it
            page = Page(read(path), files + [tree.NOT_OURS + "*"])
            for rule in (lambda page: links(page, text_of), paths, bounds, unlisted):
                yield from rule(page)
