"""C++ as text: what is left of it without comments and literals, and what Universal Ctags finds.

Blanking keeps every offset and newline, so a position in the blanked text is a position in the
file.
"""

import collections
import json
import re
import shutil
import subprocess

CLASS_KINDS = ("class", "struct", "union")
PROGRAMS = ("ctags-universal", "ctags")
# Numbers are in it because of their digit separators, which open no character literal.
LITERAL = re.compile(r"""
    //(?:\\\n|[^\n])* | /\*.*?(?:\*/|\Z)                            # comments
  | (?:\b(?:u8|[uUL])?R)"(?P<mark>[^()\\\s]{0,16})\(.*?(?:\)(?P=mark)"|\Z)
  | "(?:\\.|[^"\\\n])*"? | '(?:\\.|[^'\\\n])*'?
  | (?P<number>\b\d[\w.']*)
""", re.S | re.X)


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def _without_literal(found):
    text = found.group()
    if found.group("number"):
        return text
    stays = "" if text[0] == "/" else "0" if text[0] == "'" else '""'
    return stays[: len(text)] + _blank(text[len(stays):])


def comments_of(text):
    """Yields (offset, comment) for every comment."""
    for found in LITERAL.finditer(text):
        if found.group()[0] == "/":
            yield found.start(), found.group()


def code_of(text):
    """Returns text with comments and literals blanked (a string leaves its quotes, a character a
    0)."""
    return LITERAL.sub(_without_literal, text)


def without_directives(code):
    """Returns code with preprocessor lines and their continuations blanked."""
    return re.sub(r"(?m)^[ \t]*#(?:[^\n\\]|\\\n|\\)*", lambda found: _blank(found.group()), code)


class Function:
    """path, name; owner: its class, or ""; is_public: declared in a public part of its class; line:
    its first line; name_line: the line of its name; length in lines, 0 if it has no body."""

    def __init__(self, tag, statements):
        self.path, self.name = tag["path"], tag["name"]
        self.owner = tag["scope"] if tag.get("scopeKind") in CLASS_KINDS else ""
        self.is_public = tag.get("access") == "public"
        self.is_named = not self.name.startswith("__anon")  # a lambda is not
        self.name_line = tag["line"]
        self.line = _first_line(statements, tag["line"])
        self.length = tag["end"] - self.line + 1 if tag[
            "kind"] == "function" and "end" in tag else 0


def _first_line(statements, line):
    """Returns a head's first line, which may be above its name: a template's or a return type's."""
    while line > 1 and re.search(r"[^;{}:\s]\s*$", statements[line - 2]):
        line -= 1
    return line


# functions: every Function of the files, prototypes and lambdas too.
# bodies: class -> the paths that have its body.
Scan = collections.namedtuple("Scan", "functions bodies")


def scan(root, code_by_path):
    """Returns the Scan of the files. code_by_path: the text of each, as code_of() left it."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise RuntimeError("no ctags here (Debian: universal-ctags)")
    command = [program, "--options=NONE", "--languages=C++", "--langmap=C++:.h.hpp.cc.c.cpp.cxx",
               "--kinds-C++=fpcsu", "--sort=no", "--fields=NFneKtsa", "--output-format=json",
               "-L", "-", "-f", "-"]
    answer = subprocess.run(command, input="\n".join(code_by_path), capture_output=True, text=True,
                            check=True, cwd=root)
    lines = {path: without_directives(code).split("\n") for path, code in code_by_path.items()}
    functions, bodies = [], collections.defaultdict(set)
    for tag in map(json.loads, answer.stdout.splitlines()):
        if tag["_type"] != "tag":
            continue
        if tag["kind"] in CLASS_KINDS:
            bodies["::".join(filter(None, (tag.get("scope"), tag["name"])))].add(tag["path"])
        else:
            functions.append(Function(tag, lines[tag["path"]]))
    return Scan(functions, bodies)
