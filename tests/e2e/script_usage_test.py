"""Every script with wrong inputs: one line on stderr that names the script, the input and what is
allowed, exit code 2, and nothing installed or built. script_usage_test.py [unittest's
arguments]"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import script_usage_cases as cases
import script_usage_of_tests as cases_of_tests

SCRIPTS = cases.SCRIPTS | cases_of_tests.SCRIPTS
WRONG = cases.WRONG | cases_of_tests.WRONG
FEWER = cases.FEWER | cases_of_tests.FEWER
ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))


class ScriptUsage(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        for name in cases.BUILT:
            os.makedirs(os.path.join(self.folder, os.path.dirname(name)))
            self.write(name, "")
        for name, text in cases.FILES.items():
            self.write(name, text)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as stream:
            stream.write(text)

    def run_script(self, name, words):
        words = words.replace("{}", self.folder).split()
        given = dict(word.split("=", 1) for word in words if re.match("[A-Z_]+=", word))
        command = [os.path.join(ROOT, SCRIPTS[name])]
        command += [word for word in words if not re.match("[A-Z_]+=", word)]
        # A build would take longer.
        return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False,
                              env=dict(os.environ, **given), stdin=subprocess.DEVNULL)

    def test_wrong_inputs_are_one_line_and_status_two(self):
        self.assertEqual(sorted(SCRIPTS), sorted(WRONG))
        for name, wrong in WRONG.items():
            self.assertGreaterEqual(len(wrong), FEWER.get(name, cases.CASES), name)
            for words, said in wrong:
                with self.subTest(script=name, words=words):
                    done = self.run_script(name, words)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertEqual(done.stdout, "")
                    self.assertRegex(done.stderr, r"\A%s: [^\n]*\n\Z" % name)
                    self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
