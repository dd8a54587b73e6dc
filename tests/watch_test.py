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
GTEST = """[ RUN      ] Sound.Works
a line of the sound case
[       OK ] Sound.Works (0 ms)
[ RUN      ] Broken.Adds
a line of the broken case, seed 7
x_test.cc:3: Failure
[  FAILED  ] Broken.Adds (1 ms)
[ RUN      ] Sound.Again
[       OK ] Sound.Again (0 ms)
[  FAILED  ] 1 test, listed below:
[  FAILED  ] Broken.Adds
"""
JUNIT = """<testsuite>
  <testcase name="sound" status="run" time="1"><system-out>fine</system-out></testcase>
  <testcase name="broken" status="fail" time="2"><system-out>%s</system-out></testcase>
</testsuite>
""" % GTEST


class Shown(unittest.TestCase):
    def setUp(self):
        self.out = io.StringIO()
        self.progress = watch.Progress("release: test", self.out, lambda: 0.0)

    def take(self, *lines):
        for line in lines:
            self.progress.take(line + "\n")

    def test_a_failed_test_is_named_at_once(self):
        self.take(" 1/74 Test #58: e2e_policy ........................***Failed    0.12 sec")
        self.assertEqual(self.out.getvalue(), "release: test: e2e_policy: Failed after 0.12 s\n")
        self.take(" 2/74 Test #59: e2e_x ...........................***Timeout 600.00 sec")
        self.assertIn("e2e_x: Timeout after 600.00 s", self.out.getvalue())
        self.assertIn("2 of 74, 2 failed", self.progress.text())

    def test_a_skipped_test_has_not_failed(self):
        self.take(" 1/2 Test #1: lab_e2e ..........................***Skipped   0.50 sec")
        self.assertEqual(self.out.getvalue(), "")


class Excerpts(unittest.TestCase):
    def test_it_begins_with_the_first_case_that_failed(self):
        kept = watch.from_failure(GTEST)
        self.assertTrue(kept.startswith("[ RUN      ] Broken.Adds\na line of the broken"), kept)

    def test_a_report_or_a_failed_command_is_kept_without_what_went_before(self):
        for report in ("==1==ERROR: AddressSanitizer: heap\n#0 f\n", "FAIL: test_triangle (x)\n",
                       "FAILED: b.o\nb.cc:1: error: no\n"):
            self.assertEqual(watch.from_failure("before\n" * 500 + report), report)


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log, self.junit = (os.path.join(folder.name, name) for name in ("log", "junit"))

    def watch(self, *words):
        return subprocess.run([sys.executable, WATCH, *words], capture_output=True, text=True,
                              check=False)

    def test_the_status_is_the_commands(self):
        done = self.watch("t", self.log, "--", "sh", "-c", "echo said; exit 3")
        self.assertEqual(done.returncode, 3)
        with open(self.log, encoding="utf-8") as log:
            self.assertEqual(log.read(), "said\n")
        self.assertIn("said", self.watch("--failures", "1000", self.log).stdout)

    def test_failed_tests_are_shown_and_sound_ones_not(self):
        script = "cat >%s <<'X'\n%sX\nexit 8" % (self.junit, JUNIT)
        done = self.watch("release: test", self.log, "--junit", self.junit, "--", "sh", "-c",
                          script)
        self.assertEqual(done.returncode, 8)
        shown = self.watch("--failures", "24000", self.log).stdout
        self.assertIn("-- release: test: broken failed:", shown)
        self.assertIn("seed 7", shown)
        self.assertNotIn("fine", shown)

    def test_what_passes_leaves_nothing_of_an_earlier_failure(self):
        self.watch("t", self.log, "--", "false")
        self.assertEqual(self.watch("t", self.log, "--", "true").returncode, 0)
        self.assertEqual(self.watch("--failures", "1000", self.log).stdout, "")

    def test_wrong_usage_is_refused(self):
        self.assertEqual(self.watch("t").returncode, 2)


if __name__ == "__main__":
    unittest.main()
