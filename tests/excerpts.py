"""Finds the lines that a summary shows for a test or a build that failed: its own and no others."""

import re
import xml.etree.ElementTree

EXCERPT_MAX = 12000  # characters of one test
BUILD_STEP = re.compile(r"\[\d+/\d+[\] ]")
GTEST_RUN = re.compile(r"^\[ RUN      \] (\S+)")
GTEST_END = re.compile(r"^\[ +(FAILED|OK|SKIPPED) +\] (\S+?),? ")
HOST = re.compile(r"^[a-z]\w{0,7}: (?=\S)")
REPORT = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error: |^(FAIL|ERROR): ")
REPORT_LINES = 60


def clipped(text, most):
    """The beginning and the end of a text that is too long."""
    if len(text) <= most:
        return text
    return "%s\n... (%d characters left out)\n%s" % (text[:most // 3], len(text) - most,
                                                     text[len(text) - most * 2 // 3:])


def failed_cases(lines):
    """The lines of a GoogleTest program's failed cases, each from its RUN to its FAILED; of a
    program that crashed, from the RUN of the case that it ended in."""
    kept, case, name = [], [], None
    for line in lines:
        run, end = GTEST_RUN.match(line), GTEST_END.match(line)
        if run:
            case, name = [], run.group(1)
        if name:
            case.append(line)
        if end and end.group(2) == name:
            kept += case if end.group(1) == "FAILED" else []
            case, name = [], None
    return kept + case


def by_host(output):
    """[(prefix, lines)]: the lines of each host of the lab without their prefix ("a: "), and those
    of the test itself, whose prefix is empty."""
    groups = {"": []}
    for line in output.splitlines():
        prefix = HOST.match(line)
        name = prefix.group() if prefix else ""
        groups.setdefault(name, []).append(line[len(name):])
    return groups.items()


def reports(lines):
    """The lines of sanitizers' reports and of unittest's failures."""
    kept, left = [], 0
    for line in lines:
        left = REPORT_LINES if REPORT.search(line) else left - 1
        if left > 0:
            kept.append(line)
    return kept


def of_test(output):
    kept = []
    for prefix, lines in by_host(output):
        cases = failed_cases(lines)
        kept += [prefix + line for line in cases or reports(lines)]
    return "\n".join(kept) if kept else output[-EXCERPT_MAX:]


def of_junit(file):
    """[(test, excerpt)] of what failed; [] where ctest wrote no such file."""
    try:
        root = xml.etree.ElementTree.parse(file).getroot()
    except (OSError, xml.etree.ElementTree.ParseError):
        return []
    failed = []
    for case in root.iter("testcase"):
        if case.get("status") == "fail":
            failed.append((case.get("name"), of_test(case.findtext("system-out") or "")))
    return failed


def of_build(text):
    """Returns what ninja printed about each command that failed."""
    kept, inside = [], False
    for line in text.splitlines():
        if BUILD_STEP.match(line):
            inside = False
        if line.startswith("FAILED: "):
            inside = True
        if inside:
            kept.append(line[:400])
    return "\n".join(kept)
