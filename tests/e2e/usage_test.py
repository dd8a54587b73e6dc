"""Tools and scripts with wrong inputs: one line on stderr that names the program, the input and
what is allowed, the exit status of the table in plugin/REFERENCE.md, and nothing installed, built
or run. usage_test.py BUILD Tools|Scripts [unittest's arguments]"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
from usage_cases import FILES, FOLDERS, PATHS, ROOT, SCRIPTS, TOOLS

BUILD = os.path.abspath(sys.argv.pop(1))


def command_of(name):
    """Returns the words that start a tool of the build or a script of the tree."""
    if name in TOOLS:
        return [os.path.join(BUILD, FOLDERS.get(name, "perf/" + name), name)]
    path = os.path.join(ROOT, PATHS.get(name, name))
    with open(path, encoding="utf-8") as stream:
        in_python = "python3" in stream.readline()
    # The interpreter that runs this test starts faster than one that a user has put before it.
    return [sys.executable, path] if in_python else [path]


class Usage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name, text in FILES.items():
            path = os.path.join(self.folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii") as stream:
                stream.write(text)

    def run_program(self, name, words):
        words = words.replace("{}", self.folder).split()
        given = [word for word in words if re.match("[A-Z_]+=", word)]
        command = command_of(name) + [word for word in words if word not in given]
        return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False,
                              cwd=self.folder, stdin=subprocess.DEVNULL,
                              env=dict(os.environ, **dict(word.split("=", 1) for word in given)))

    def check(self, programs):
        for name, cases in programs.items():
            for words, said, *status in cases:
                with self.subTest(program=name, words=words):
                    done = self.run_program(name, words)
                    self.assertEqual(done.returncode, status[0] if status else 2, done.stderr)
                    self.assertEqual(done.stdout, "")
                    self.assertRegex(done.stderr, r"\A%s: [^\n]*\n\Z" % name)
                    self.assertIn(said, done.stderr)


class Scripts(Usage):
    def test_wrong_inputs(self):
        self.check(SCRIPTS)


class Tools(Usage):
    def test_wrong_inputs(self):
        self.check(TOOLS)

    def test_help_has_the_codes_of_the_page_and_the_defaults(self):
        with open(os.path.join(ROOT, "plugin/REFERENCE.md"), encoding="utf-8") as stream:
            page = stream.read().split("## Exit codes")[1].split("\n## ")[0]
        rows = re.findall(r"^\| (\d) \| ([^|]+?) \|", page, re.M)
        codes = "; ".join("%s %s" % row for row in rows)
        for tool in TOOLS:
            done = self.run_program(tool, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), tool)
            self.assertIn("Exit status: %s." % codes, done.stdout, tool)
        told = self.run_program("mesh_perf", "--help").stdout
        for default in ("SIZE=32M", "NAME=float", "NAME=ring", "NAME=sum", "0..1000000=5"):
            self.assertIn(default, told)

    def test_an_algorithm_that_is_named_has_latencies(self):
        words = "all_reduce -b 4K -e 16K -f 4 -n 5 --hosts a,b"
        self.assertNotIn("median", self.run_program("mesh_perf", words).stdout)
        for algorithm in ("ring", "oneshot"):
            done = self.run_program("mesh_perf", words + " --algorithm " + algorithm)
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
