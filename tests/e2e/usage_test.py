"""Every tool with wrong inputs: one line on stderr that names the tool, the input and what is
allowed, and the exit code of the table in plugin/REFERENCE.md. usage_test.py BUILD [unittest's
arguments]"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
from usage_cases import FAILED, FILES, ROOT, SUFFIX, WRONG

BUILD = os.path.abspath(sys.argv.pop(1))
FOLDERS = {"mesh_model": "perf/model", "mesh_handoff": "perf/handoff", "mesh_settings": "src/base"}


class Usage(unittest.TestCase):
    def run_tool(self, tool, words):
        words = words.split()
        given = dict(word.split("=", 1) for word in words if re.match("[A-Z_]+=", word))
        command = [os.path.join(BUILD, FOLDERS.get(tool, "perf/" + tool), tool)]
        command += [word for word in words if not re.match("[A-Z_]+=", word)]
        with tempfile.TemporaryDirectory() as folder:
            for name, text in FILES.items():
                with open(os.path.join(folder, name + SUFFIX.get(tool, "")), "w",
                          encoding="ascii") as stream:
                    stream.write(text)
            return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                                  cwd=folder, env=dict(os.environ, **given))

    def expect(self, tool, words, said, code):
        with self.subTest(tool=tool, words=words):
            done = self.run_tool(tool, words)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertRegex(done.stderr, r"\A%s: [^\n]*\n\Z" % tool)
            self.assertIn(said, done.stderr)

    def test_wrong_inputs_are_one_line_and_status_two(self):
        for tool, cases in WRONG.items():
            self.assertGreaterEqual(len(cases) + len(FAILED.get(tool, [])), 20, tool)
            for words, said in cases:
                self.expect(tool, words, said, 2)

    def test_a_run_that_fails_is_one_line_and_status_one(self):
        for tool, cases in FAILED.items():
            for words, said in cases:
                self.expect(tool, words, said, 1)

    def test_help_has_the_codes_of_the_page_and_the_defaults(self):
        with open(os.path.join(ROOT, "plugin/REFERENCE.md"), encoding="utf-8") as stream:
            page = stream.read().split("## Exit codes")[1].split("\n## ")[0]
        rows = re.findall(r"^\| (\d) \| ([^|]+?) \|", page, re.M)
        codes = "; ".join("%s %s" % row for row in rows)
        for tool in WRONG:
            done = self.run_tool(tool, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), tool)
            self.assertIn("Exit status: %s." % codes, done.stdout, tool)
        told = self.run_tool("mesh_perf", "--help").stdout
        for default in ("SIZE=32M", "NAME=float", "NAME=ring", "NAME=sum", "0..1000000=5"):
            self.assertIn(default, told)

    def test_an_algorithm_that_is_named_has_latencies(self):
        words = "all_reduce -b 4K -e 16K -f 4 -n 5 --hosts a,b"
        self.assertNotIn("median", self.run_tool("mesh_perf", words).stdout)
        for algorithm in ("ring", "oneshot"):
            done = self.run_tool("mesh_perf", words + " --algorithm " + algorithm)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            rows = [line.split() for line in done.stdout.splitlines() if line.startswith(" ")]
            self.assertEqual([row[0] for row in rows], ["4096", "16384"], done.stdout)
            for row in rows:
                self.assertEqual(len(row), 15, done.stdout)
                median, p99 = map(float, row[-2:])
                self.assertTrue(0 < median <= p99, done.stdout)
            self.assertEqual("one-shot" in done.stdout, algorithm == "oneshot")


if __name__ == "__main__":
    unittest.main()
