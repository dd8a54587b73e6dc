"""C++ as text: what is left of it without comments and literals.

Blanking keeps every offset and newline, so a position in the blanked text is a position in the
file.
"""

import re

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


def code_of(text):
    """Returns text with comments and literals blanked (a string leaves its quotes, a character a
    0)."""
    return LITERAL.sub(_without_literal, text)


def without_directives(code):
    """Returns code with preprocessor lines and their continuations blanked."""
    return re.sub(r"(?m)^[ \t]*#(?:[^\n\\]|\\\n|\\)*", lambda found: _blank(found.group()), code)
