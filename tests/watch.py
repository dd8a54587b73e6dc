#!/usr/bin/env python3
"""Runs a build or a test run with its progress shown, and keeps what failed for the summary.

watch.py TITLE LOG [--junit FILE] -- COMMAND...
    All output of COMMAND goes to LOG. Prints how far it is: on a terminal one line that is
    rewritten, elsewhere a line every 15 s; each test that fails is named at once. Ninja's and
    ctest's progress is understood. If COMMAND fails, LOG.failed gets what was printed from the
    first failure on: of each failed test where FILE is ctest's --output-junit, else of COMMAND.
    Exit status: COMMAND's.
watch.py --failures CHARACTERS LOG...
    Prints the excerpts of these logs, in at most so many characters together.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

PERIOD_S = 15  # between two lines where there is no terminal
NINJA = re.compile(r"\[(\d+)/(\d+)[\] ]")
EXCERPT_MAX = 12000  # characters of one log
# A failed command of ninja's, a failed case of GoogleTest's or unittest's, a sanitizer's report.
FAILURE = re.compile(r"^FAILED: |^.*: Failure$|^.*(?:ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|"
                     r"runtime error: )|^(?:FAIL|ERROR): ", re.M)
CTEST_START = re.compile(r"^ *Start +\d+: (\S+)")
CTEST_END = re.compile(r"^ *(\d+)/(\d+) Test +#\d+: (\S+) \.*(.*?) +([\d.]+) sec")


def duration(seconds):
    return "%d:%02d" % (seconds // 60, seconds % 60)


class Progress:
    """The facts about a running command. Thread: any; the lock guards all."""

    def __init__(self, title, stream=sys.stdout, clock=time.monotonic):
        self._title, self._stream, self._clock = title, stream, clock
        self._lock = threading.Lock()
        self._begin = clock()
        self._done = self._total = self._failed = 0
        self._running = []
        self._terminal = stream.isatty()

    def take(self, line):
        """Takes a line of the command's output."""
        with self._lock:
            ninja, start, end = (NINJA.match(line), CTEST_START.match(line), CTEST_END.match(line))
            if ninja:
                self._done, self._total = int(ninja.group(1)), int(ninja.group(2))
            elif start:
                self._running.append(start.group(1))
            elif end:
                self._ended(end)

    def _ended(self, end):
        name, result = end.group(3), end.group(4).strip()
        self._done, self._total = self._done + 1, int(end.group(2))
        if name in self._running:
            self._running.remove(name)
        if "Passed" not in result and "Skipped" not in result:
            self._failed += 1
            self._say("%s: %s: %s after %s s" % (self._title, name, result.strip("* ") or "failed",
                                                 end.group(5)), stays=True)

    def text(self):
        elapsed = self._clock() - self._begin
        parts = ["%d of %d" % (self._done, self._total)] if self._total else []
        parts += ["%d failed" % self._failed] if self._failed else []
        parts.append("%s elapsed" % duration(elapsed))
        parts += ["now " + ", ".join(self._running)] if self._running else []
        return "%s: %s" % (self._title, ", ".join(parts))

    def tell(self):
        with self._lock:
            self._say(self.text(), stays=False)

    def close(self):
        """Tells the end of what took long enough to be told of before."""
        with self._lock:
            if self._clock() - self._begin >= PERIOD_S or self._failed:
                self._say(self.text(), stays=True)
            elif self._terminal:
                self._say("", stays=False)

    def _say(self, text, stays):
        ending = "\x1b[K\n" if self._terminal and stays else "\x1b[K" if self._terminal else "\n"
        self._stream.write(("\r" if self._terminal else "") + text + ending)
        self._stream.flush()

    @property
    def period(self):
        return 1 if self._terminal else PERIOD_S


def watch(title, log, command):
    """The exit status of the command."""
    progress, over = Progress(title), threading.Event()

    def tell_now_and_then():
        while not over.wait(progress.period):
            progress.tell()

    with open(log, "w", encoding="utf-8") as out, subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        teller = threading.Thread(target=tell_now_and_then, daemon=True)
        teller.start()
        try:
            for line in process.stdout:
                out.write(line)
                progress.take(line)
            status = process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            status = 130
        over.set()
        teller.join()
    progress.close()
    return status


def clipped(text, most):
    """Returns the beginning and the end of a text that is too long."""
    if len(text) <= most:
        return text
    return "%s\n... (%d characters left out)\n%s" % (text[:most // 2], len(text) - most,
                                                     text[len(text) - most // 2:])


def from_failure(text):
    """Returns the text from the first failure on, with the beginning of its case; the end if it
    shows none."""
    failure = FAILURE.search(text)
    if not failure:
        return text[-EXCERPT_MAX // 2:]
    case = text.rfind("[ RUN      ]", 0, failure.start())
    return text[case if case >= 0 else failure.start():]


def failed_tests(junit):
    """Returns (name, output) of each test that failed; nothing where ctest wrote no such file."""
    try:
        cases = xml.etree.ElementTree.parse(junit).getroot().iter("testcase")
    except (OSError, xml.etree.ElementTree.ParseError):
        return []
    return [(case.get("name"), case.findtext("system-out") or "") for case in cases
            if case.get("status") == "fail"]


def keep_failures(title, log, junit):
    failed = failed_tests(junit) if junit else []
    with open(log + ".failed", "w", encoding="utf-8") as out:
        for name, output in failed:
            share = max(EXCERPT_MAX // len(failed), 1500)
            out.write("-- %s: %s failed:\n%s\n" % (title, name,
                                                  clipped(from_failure(output), share)))
        if not failed:
            with open(log, encoding="utf-8") as file:
                excerpt = clipped(from_failure(file.read()), EXCERPT_MAX)
            out.write("-- %s failed (all of it: %s):\n%s\n" % (title, log, excerpt))


def show_failures(most, logs):
    texts = []
    for log in logs:
        if os.path.exists(log + ".failed"):
            with open(log + ".failed", encoding="utf-8") as file:
                texts.append(file.read())
    for text in texts:
        print(clipped(text, most // len(texts)), end="")


def main(arguments):
    if len(arguments) >= 2 and arguments[0] == "--failures":
        show_failures(int(arguments[1]), arguments[2:])
        return 0
    if "--" not in arguments or arguments.index("--") not in (2, 4):
        print(__doc__, file=sys.stderr)
        return 2
    own, command = arguments[:arguments.index("--")], arguments[arguments.index("--") + 1:]
    title, log = own[:2]
    junit = own[3] if len(own) == 4 and own[2] == "--junit" else None
    for stale in (log + ".failed", junit):
        if stale and os.path.exists(stale):
            os.remove(stale)
    status = watch(title, log, command)
    if status != 0:
        keep_failures(title, log, junit)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
