"""Writes CHANGELOG.md in the form that Debian's packages have, compressed, for CMake. The time is
SOURCE_DATE_EPOCH's, so that one source always makes one package."""

import email.utils
import gzip
import os
import re
import sys


def releases(text):
    """Yields the version and the lines of each release, newest first."""
    parts = re.split(r"^## (\d+\.\d+\.\d+)[^\n]*\n", text, flags=re.MULTILINE)
    for version, body in zip(parts[1::2], parts[2::2]):
        items = re.findall(r"^- (.+(?:\n  .+)*)", body, flags=re.MULTILINE)
        yield version, [" ".join(item.split()) for item in items]


def wrapped(item):
    lines, line = [], "  *"
    for word in item.split():
        if len(line) + 1 + len(word) > 78:
            lines.append(line)
            line = "   "
        line += " " + word
    return "\n".join(lines + [line])


def debian_form(text, maintainer, seconds):
    date = email.utils.formatdate(seconds)
    return "\n".join("nccl-mesh (%s) unstable; urgency=medium\n\n%s\n\n -- %s  %s\n" % (
        version, "\n".join(map(wrapped, items)), maintainer, date.replace("-0000", "+0000"))
        for version, items in releases(text))


def main(source, target, maintainer):
    with open(source, encoding="utf-8") as file:
        text = debian_form(file.read(), maintainer, int(os.environ.get("SOURCE_DATE_EPOCH", "0")))
    if not text:
        sys.exit("debian_changelog.py: %s: no release in it" % source)
    with open(target, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(text.encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
