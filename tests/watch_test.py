#!/usr/bin/env python3
"""Tests the output of tests/run: progress, the names of failed tests, and what they said."""

import io
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import watch

WATCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "watch.py")
JUNIT = """<testsuite>
  <testcase name="sound" status="run" time="1"><system-out>fine</system-out></testcase>
  <testcase name="broken" status="fail" time="2"><system-out>[ RUN      ] Sound.Works
[ RUN      ] Broken.Adds
a line of the broken case, seed 7
x_test.cc:3: Failure
</system-out></testcase>
</testsuite>
"""


class Watch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log, self.junit = (os.path.join(folder.name, name) for name in ("log", "junit"))

    def watch(self, *words):
        return subprocess.run([sys.executable, WATCH, *words], capture_output=True, text=True,
                              check=False)

    def test_a_failed_test_is_named_at_once_and_a_skipped_one_has_not_failed(self):
        out = io.StringIO()
        progress = watch.Progress("release: test", out, lambda: 0.0)
        progress.take(" 1/74 Test #57: lab_e2e ..........................***Skipped   0.50 sec\n")
        progress.take(" 2/74 Test #58: e2e_policy ........................***Failed    0.12 sec\n")
        self.assertEqual(out.getvalue(), "release: test: e2e_policy: Failed after 0.12 s\n")
        self.assertIn("2 of 74, 1 failed", progress.text())

    def test_the_log_and_the_status_are_the_commands(self):
        done = self.watch("t", self.log, "--", "sh", "-c", "echo said; exit 3")
        self.assertEqual(done.returncode, 3)
        with open(self.log, encoding="utf-8") as log:
            self.assertEqual(log.read(), "said\n")
        self.assertIn("said", self.watch("--failures", "1000", self.log).stdout)

    def test_of_failed_tests_the_failed_case_is_shown_until_a_run_passes(self):
        script = "cat >%s <<'X'\n%sX\nexit 8" % (self.junit, JUNIT)
        done = self.watch("release: test", self.log, "--junit", self.junit, "--", "sh", "-c",
                          script)
        self.assertEqual(done.returncode, 8)
        shown = self.watch("--failures", "24000", self.log).stdout
        self.assertIn("-- release: test: broken failed:\n[ RUN      ] Broken.Adds\n", shown)
        self.assertIn("seed 7", shown)
        self.assertNotIn("fine", shown)
        self.assertEqual(self.watch("t", self.log, "--", "true").returncode, 0)
        self.assertEqual(self.watch("--failures", "1000", self.log).stdout, "")

    def test_wrong_usage_is_refused(self):
        self.assertEqual(self.watch("t").returncode, 2)


if __name__ == "__main__":
    unittest.main()
