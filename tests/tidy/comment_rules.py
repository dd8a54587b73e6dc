"""The rule for comments: sentences that a stranger reads once."""

import re

# A comment names its subject first; these words make the reader wait for it.
RIDDLE = re.compile(r'(?:^|\s)(?://|#|""") ?(Of|Who|What|Where|Which|False:|True:)(?= |$)')
LIKEWISE = re.compile(r"(?://|#).*\b([Ll]ikewise)\b")


def riddles(file):
    """Yields (path, line, rule, what) for every such comment of a source or a script."""
    for number, line in enumerate(file.lines if file.is_code else (), 1):
        found = RIDDLE.search(line) or LIKEWISE.search(line)
        if found:
            yield (file.path, number, "riddle",
                   "a comment with '%s': subject, verb, object, and the thing named" %
                   found.group(1))
