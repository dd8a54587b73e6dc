"""The rules for words: the code has every word of the glossary, and neither the code nor a page has
one that was replaced. Each yields (path, line, rule, what)."""

import re

import tables

PAGE = "CONTRIBUTING.md"
ROW = re.compile(r"\| \*\*([^*]+)\*\*")


def words(text):
    """Returns (line, word) for every bold word of the page's glossary."""
    found = []
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        inside = line == "## Glossary" or inside and not line.startswith("## ")
        row = ROW.match(line) if inside else None
        found += [(number, word) for word in row.group(1).split(", ")] if row else []
    return found


def spoken(text):
    """Returns the words of a text: lower case, each identifier and comment as words."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return re.sub(r"[^a-z]+", " ", apart.lower())


def unused(files):
    """Yields words of the glossary that the product's code does not have."""
    pages = [file for file in files if file.path == PAGE]
    code = spoken("\n".join(file.text for file in files if file.is_cpp
                            and file.path.startswith(tables.PRODUCT_MODULES)))
    for page in pages:
        for number, word in words(page.text):
            if not re.search(r"\b%s(s|es)?\b" % spoken(word), code):
                yield page.path, number, "glossary", "the code has no '%s'" % word


def replaced(file):
    """Yields words of a source or page that have been replaced."""
    if not file.path.startswith(tables.PRODUCT_MODULES) and not file.path.endswith(".md"):
        return
    for pattern, instead, allowed in tables.REPLACED_WORDS:
        if re.match(allowed, file.path):
            continue
        for found in re.finditer(pattern, file.text):
            line = file.text.count("\n", 0, found.start()) + 1
            what = "'%s' is out of use; write %s" % (" ".join(found.group().split()), instead)
            yield file.path, line, "word-out-of-use", what
