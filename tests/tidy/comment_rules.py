"""The rules for comments in C++: sentences that a stranger reads once. Each yields
(path, line, rule, what)."""

import re

# A comment names its subject first; these words make the reader wait for it.
RIDDLE = re.compile(r"// (Of|Who|What|Where|Which|False:|True:)(?= |$)")
LIKEWISE = re.compile(r"//.*\b([Ll]ikewise)\b")


def riddles(source):
    for number, line in enumerate(source.file.lines, 1):
        found = RIDDLE.search(line) or LIKEWISE.search(line)
        if found:
            yield (source.path, number, "riddle",
                   "a comment with '%s': subject, verb, object, and the thing named" %
                   found.group(1))
