"""Runs the lab from Python tests: run_lab() for one boot, LabCase to have everything printed when a
test fails, main() for `some_test.py [--build DIR] [unittest's arguments]`. Without a lab tests are
skipped with its reason (MESH_LAB_REQUIRED=1: they fail), and main() exits 77 when nothing but skips
is left."""

import os
import signal
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "../../.."))
LAB_RUN = os.path.join(ROOT, "tests/lab/run")
BOOT_S_MAX = 660  # what the lab allows itself, and a first unpacking of the kernel package
EXIT_CANNOT = 77
LAST_WORDS_S = 60

_build = os.environ.get("MESH_BUILD", os.path.join(ROOT, "build/release"))


# tests/run asks for less unless --full is given.
BRIEF = os.environ.get("MESH_BRIEF") == "1"
at_length = unittest.skipIf(BRIEF, "brief: tests/run --full has it")


def built(path):
    """Returns the absolute path of a built file; the hosts see it at that path too."""
    found = os.path.join(os.path.abspath(_build), path)
    if not os.path.exists(found):
        raise FileNotFoundError("%s is not built (--build DIR or MESH_BUILD names the build tree)" %
                                found)
    return found


class LabRun:
    """The output of one boot of the lab. code: its exit status. text: everything, stdout and stderr
    as they came."""

    def __init__(self, what, code, text):
        self.what, self.code, self.text = what, code, text

    def lines(self, host):
        """Returns the lines of one host without its name; "lab" stands for the runner's own
        lines."""
        mark = host + ": "
        return [line[len(mark):] for line in self.text.splitlines() if line.startswith(mark)]

    def __str__(self):
        return "== %s: exit status %d\n%s" % (self.what, self.code, self.text)


def _arguments(topology, command, on, ranks_per_host, timeout, env):
    words = [LAB_RUN, topology, "--timeout", str(timeout), "--ranks-per-host", str(ranks_per_host)]
    if on:
        words += ["--on", on if isinstance(on, str) else ",".join(on)]
    for name, value in (env or {}).items():
        words += ["--env", "%s=%s" % (name, value)]
    return words + ["--"] + (["bash", "-c", command] if isinstance(command, str) else list(command))


def _finish(process, timeout):
    """Returns the output. The runner cleans up behind itself when asked to stop, so it is asked
    before it is killed."""
    try:
        return process.communicate(timeout=timeout + BOOT_S_MAX)[0]
    except BaseException:
        process.send_signal(signal.SIGTERM)
        try:
            print(process.communicate(timeout=LAST_WORDS_S)[0].decode(errors="replace"),
                  file=sys.stderr, flush=True)
        except subprocess.TimeoutExpired:
            process.kill()
        raise


def run_lab(topology, command, *, on=None, ranks_per_host=1, timeout=1200, env=None):
    """Boots a topology and runs a command on its hosts (a text: by bash). Skips the test if there
    can be no lab."""
    words = _arguments(topology, command, on, ranks_per_host, timeout, env)
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as process:
        text = _finish(process, timeout).decode(errors="replace")
    run = LabRun("lab %s" % topology, process.returncode, text)
    if run.code == EXIT_CANNOT and "lab: cannot run here" in text:
        reason = text.strip().splitlines()[-1] if text.strip() else "no lab is available here"
        if os.environ.get("MESH_LAB_REQUIRED") == "1":
            raise AssertionError("a lab is required (MESH_LAB_REQUIRED=1): " + reason)
        raise unittest.SkipTest(reason)
    return run


class LabCase(unittest.TestCase):
    """self.run_lab() calls run_lab(); the lab's output is printed when the test fails."""

    maxDiff = None

    def run_lab(self, topology, command, **options):
        run = run_lab(topology, command, **options)
        self._runs.append(run)
        return run

    def run(self, result=None):
        self._runs = []
        wrong = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > wrong:
            print("\n".join(str(run) for run in self._runs), file=sys.stderr, flush=True)
        return result


def main():
    global _build  # pylint: disable=global-statement
    if "--build" in sys.argv[1:]:
        at = sys.argv.index("--build")
        if at + 1 == len(sys.argv):
            sys.exit("%s: --build needs a directory" % sys.argv[0])
        _build = sys.argv[at + 1]
        del sys.argv[at:at + 2]
    # A signal becomes an exception, so that a running lab is stopped in good order.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    outcome = unittest.main(module="__main__", exit=False, verbosity=2).result
    if not outcome.wasSuccessful():
        sys.exit(1)
    sys.exit(EXIT_CANNOT if outcome.testsRun and len(outcome.skipped) == outcome.testsRun else 0)
