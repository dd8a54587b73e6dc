"""tests/under_load: its exit status, what it tells, and that its busy loops are gone however it
ends."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
UNDER_LOAD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "under_load")
PATIENCE_S = 60


def children_of(parent):
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % entry, encoding="utf-8") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(entry))
    return found


def wait_until(what, done):
    end = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > end:
            raise AssertionError("not within %d s: %s" % (PATIENCE_S, what))
        time.sleep(0.05)


class UnderLoad(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_it(self, *words):
        return subprocess.run([UNDER_LOAD, "--logs", self.folder, *words], capture_output=True,
                              text=True, timeout=PATIENCE_S, check=False)

    def start(self, *words):
        """A run that has its loops and whose command is at work."""
        command = [UNDER_LOAD, "--logs", self.folder, "--busy", "2", "--", *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_until("the command starts", lambda: os.path.exists(self.path("started")))
        return process, children_of(process.pid)

    def test_every_run_is_told_and_one_that_fails_is_the_status(self):
        # The second of three runs fails.
        script = "echo x >>%s; lines=$(wc -l <%s); echo this is run $lines; [ $lines != 2 ]" % (
            (self.path("count"),) * 2)
        done = self.run_it("--times", "3", "--busy", "1", "--", "sh", "-c", script)
        self.assertEqual(done.returncode, 1)
        self.assertIn("run 1 of 3 beside 1 busy loops: passed", done.stdout)
        self.assertIn("this is run 2\n", done.stdout, "what the failing one said")
        self.assertIn("run 2 of 3 beside 1 busy loops: FAILED with status 1", done.stdout)
        self.assertIn("run 3 of 3 beside 1 busy loops: passed", done.stdout)
        self.assertIn("1 failed so far", done.stdout.splitlines()[-1])
        with open(self.path("run-3.log"), encoding="utf-8") as log:
            self.assertEqual(log.read(), "this is run 3\n")

    def test_all_runs_pass(self):
        self.assertEqual(self.run_it("--times", "2", "--busy", "2", "--", "true").returncode, 0)

    def test_loops_and_command_end_with_it(self):
        for number, code in ((signal.SIGTERM, 130), (signal.SIGINT, 130),
                             (signal.SIGKILL, -signal.SIGKILL)):
            with self.subTest(number):
                process, children = self.start("sh", "-c",
                                               "touch %s; exec sleep 1000" % self.path("started"))
                os.unlink(self.path("started"))
                self.assertEqual(len(children), 3, "two loops and the command")
                process.send_signal(number)
                self.assertEqual(process.wait(PATIENCE_S), code)
                wait_until("all are gone", lambda: not any(os.path.exists("/proc/%d" % child)
                                                           for child in children))

    def test_mistakes(self):
        for words, says in ((["--times", "0", "--", "true"],
                             "--times: 0 is not a number of 1..100000"),
                            (["--busy=-1", "--", "true"], "--busy: -1 is not a number of 0..1024"),
                            (["--times", "2"], "COMMAND is missing"),
                            (["--", "/nonexistent/program"], "no such program")):
            done = self.run_it(*words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    unittest.main()
