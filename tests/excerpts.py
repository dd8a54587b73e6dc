"""What a summary shows of a test or a build that failed: its own lines and no others."""

import re
import xml.etree.ElementTree

EXCERPT_MAX = 12000  # characters of one test
BUILD_STEP = re.compile(r"\[\d+/\d+[\] ]")
GTEST_RUN = re.compile(r"^\[ RUN      \] (\S+)")
GTEST_FAILED = re.compile(r"^\[  FAILED  \] (\S+?),? ")
REPORT = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error: |^(FAIL|ERROR): ")
REPORT_LINES = 60


def clipped(text, most):
    """The beginning and the end of a text that is too long."""
    if len(text) <= most:
        return text
    return "%s\n... (%d characters left out)\n%s" % (text[:most // 3], len(text) - most,
                                                     text[len(text) - most * 2 // 3:])


def failed_cases(output):
    """The lines of a GoogleTest program's failed cases, each from its RUN to its FAILED."""
    kept, case = [], []
    for line in output.splitlines():
        if GTEST_RUN.match(line):
            case = []
        case.append(line)
        if GTEST_FAILED.match(line) and GTEST_RUN.match(case[0]):
            kept += case
            case = []
    # A program that crashed ends in the midst of a case.
    return kept + (case if case and GTEST_RUN.match(case[0]) and "[       OK ]" not in case[-1]
                   else [])


def reports(output):
    """The lines of sanitizers' reports and of unittest's failures."""
    lines, kept, left = output.splitlines(), [], 0
    for line in lines:
        left = REPORT_LINES if REPORT.search(line) else left - 1
        if left > 0:
            kept.append(line)
    return kept


def of_test(output):
    cases = failed_cases(output)
    found = reports("\n".join(cases) if cases else output)
    if cases:
        return "\n".join(cases)
    return "\n".join(found) if found else output[-EXCERPT_MAX:]


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
    """What ninja printed of each command that failed."""
    kept, inside = [], False
    for line in text.splitlines():
        if BUILD_STEP.match(line):
            inside = False
        if line.startswith("FAILED: "):
            inside = True
        if inside:
            kept.append(line[:400])
    return "\n".join(kept)
