"""Every script with wrong inputs: one line on stderr that names the script, the input and what is
allowed, exit code 2, and nothing installed or built. script_usage_test.py [unittest's
arguments]"""

import os
import subprocess
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
# The scripts, by what their lines begin with.
SCRIPTS = {"perf/accept": "perf/accept", "perf/run": "perf/run",
           "perf/compare": "perf/compare", "make": "plugin/package/make",
           "perf/handoff/waits": "perf/handoff/waits", "tests/lab/run": "tests/lab/run",
           "perf/instructions/run": "perf/instructions/run"}
WRONG = {
    "perf/accept": [
        ("", "start it on every host with MESH_RENDEZVOUS, RANK and WORLD_SIZE, or once with"),
        ("--hosts a", "1 hosts are not in 2..8"),
        ("--hosts a,b,c,d,e,f,g,h,i", "9 hosts are not in 2..8"),
        ("--hosts a,b --cut true", "--cut and --mend go together"),
        ("--hosts a,b --build /nix", "/nix/perf/mesh_perf/mesh_perf is not built"),
        ("--hosts a,b --timeout x", "--timeout: invalid int value: 'x'"),
        ("--foo", "unrecognized arguments: --foo; --help has all options"),
    ],
    "perf/run": [
        ("all_redcue", "'all_redcue' names no collective (one of all_gather all_reduce"),
        ("all_reduce --foo", "mesh_perf has no option --foo"),
        ("reduce_scatter --root=1 --foo=2", "mesh_perf has no option --foo"),
        ("--foo", "mesh_perf has no option --foo"),
        ("--soft --foo", "unrecognized arguments: --foo; --help has all options"),
        ("--soft -b 1X", "-b/--minbytes: 1X is not a size of 1..16G"),
        ("--soft -b 1M -e 1K", "--maxbytes 1024 is below --minbytes 1048576"),
        ("--soft --qps 99", "--qps: 99 is not a number of 1..32"),
        ("--soft --fabric nix", "--fabric nix: no such file"),
        ("--soft --perftest", "--perftest needs real verbs"),
        ("--soft --operations nix", "nix is not one of"),
        ("--soft --pauses -1", "--pauses: -1 is not a number of 0..60000 milliseconds"),
        ("--model --operations latency", "the model always measures"),
        ("--lab nix", "--lab nix: no such topology; tests/lab/run --list has all"),
        ("--hosts a", "--hosts a: name at least two hosts"),
        ("--compare a", "--compare: expected 2 arguments"),
    ],
    "make": [
        ("--foo", "unrecognized arguments: --foo; --help has all options"),
        ("--preset nix", "--preset nix is not one of"),
        ("--output /proc/nix", "--output /proc/nix: "),
        ("extra", "unrecognized arguments: extra"),
    ],
    "perf/compare": [
        ("--foo", "unrecognized arguments: --foo"),
        ("a b --binary c", "--binary measures, and two files leave nothing to measure"),
    ],
    "perf/handoff/waits": [
        ("--rounds 0", "--rounds 0 is not a number of 1..1000"),
        ("--cpu 9999", "--cpu 9999 is none of the CPUs that this process may use"),
        ("--idle 61", "--idle 61 is not a number of 0..60"),
    ],
    "perf/instructions/run": [("--foo", "unrecognized arguments: --foo")],
    "tests/lab/run": [
        ("", "TOPOLOGY is missing; --list lists all"),
        ("pair", "COMMAND is missing: tests/lab/run pair -- COMMAND..."),
        ("nix -- true", "nix"),
        ("pair --timeout 0 -- true", "--timeout 0 is not in 1..86400"),
        ("pair --memory 1 -- true", "--memory 1 is not in 256..65536"),
        ("pair --on q -- true", "--on q: there is no host q (hosts: a, b)"),
        ("pair --env x -- true", "--env x is not NAME=VALUE"),
        ("--foo", "unrecognized arguments: --foo"),
    ],
}


class ScriptUsage(unittest.TestCase):
    def test_wrong_inputs_are_one_line_and_status_two(self):
        self.assertEqual(sorted(SCRIPTS), sorted(WRONG))
        for name, cases in WRONG.items():
            for words, said in cases:
                with self.subTest(script=name, words=words):
                    # A build would take longer.
                    done = subprocess.run([os.path.join(ROOT, SCRIPTS[name]), *words.split()],
                                          capture_output=True, text=True, timeout=600, check=False)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertEqual(done.stdout, "")
                    self.assertRegex(done.stderr, r"\A%s: [^\n]*\n\Z" % name)
                    self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
