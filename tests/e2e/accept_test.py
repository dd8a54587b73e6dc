"""perf/accept between two hosts of the software fabric, which a command in the place of ssh starts.
accept_test.py BUILD [unittest's arguments]"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
BUILD = os.path.abspath(sys.argv.pop(1))
# In the place of ssh: HOST COMMAND. 127.0.0.1 is the fabric's host a.
REACH = """case $1 in 127.0.0.1) host=a ;; *) host=b ;; esac
NCCL_MESH_HOST=$host exec sh -c "$2"
"""
PORT = 20000 + os.getpid() % 6000 * 2  # below those that the kernel gives out


class Accept(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        with open(os.path.join(ROOT, "perf/fabrics/pair2.json"), encoding="ascii") as stream:
            fabric = json.load(stream)
        fabric["name"] = "accept-%d" % os.getpid()
        self.fabric = self.write("fabric.json", json.dumps(fabric))
        self.reach = self.write("reach", REACH)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as stream:
            stream.write(text)
        return path

    def run_accept(self, *words, **settings):
        """Returns the exit status, the report, and the page."""
        given = dict(os.environ, NCCL_MESH_FABRIC="soft:" + self.fabric, **settings)
        for name in ("MESH_RENDEZVOUS", "RANK", "WORLD_SIZE"):
            given.pop(name, None)
        out = os.path.join(self.folder, "out")
        done = subprocess.run(
            [os.path.join(ROOT, "perf/accept"), "--hosts", "127.0.0.1,127.0.0.2", "--ssh",
             "sh " + self.reach, "--port", str(PORT), "--quick", "--timeout", "120", "--build",
             BUILD, "--out", out, *words],
            capture_output=True, text=True, timeout=1200, check=False, env=given)
        self.assertTrue(os.path.exists(out + "/report.json"), done.stderr)
        with open(out + "/report.json", encoding="utf-8") as stream:
            report = json.load(stream)
        with open(out + "/report.html", encoding="utf-8") as stream:
            return done.returncode, report, stream.read()

    def test_healthy_hosts_are_accepted_though_a_cable_is_cut(self):
        fault = "%s/perf/mesh_fault/mesh_fault --fabric %s a mesh0 " % (BUILD, self.fabric)
        code, report, page = self.run_accept("--cut", fault + "down", "--mend", fault + "up")
        self.assertEqual((code, report["verdict"], report["wrong"]), (0, "accepted", []))
        steps = [(one["step"], one["rank"]) for one in report["steps"]]
        for step in ("doctor", "all_reduce", "alltoall", "8 queue pairs", "latency", "cut"):
            self.assertIn((step, 0), steps)
            self.assertIn((step, 1), steps)
        said = [line for one in report["steps"] if one["step"] == "cut" for line in one["said"]]
        self.assertTrue([line for line in said if "is lost" in line], said)
        for words in ("accepted", "Bandwidth", "8 queue pairs", "mesh1:1", "Latency"):
            self.assertIn(words, page)
        self.assertNotIn("HOME", report["settings"])

    def test_a_step_that_fails_is_named_by_rank(self):
        code, report, page = self.run_accept(NCCL_MESH_STRIPE_BYTES="1X")
        self.assertEqual((code, report["verdict"]), (3, "not accepted"))
        self.assertIn("all_reduce on rank 1", report["wrong"])
        self.assertIn("NCCL_MESH_STRIPE_BYTES", page)


if __name__ == "__main__":
    unittest.main()
