"""Whole sweeps with the built programs on the software fabric: result files, reports, hosts reached
by a command in ssh's place, and runs that fail. Figures are not judged. sweep_test.py BUILD
[unittest's arguments]"""

import os
import stat
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
sys.path.insert(0, os.path.join(ROOT, "perf/suite"))
import results

BUILD = os.path.abspath(sys.argv.pop(1) if len(sys.argv) > 1 and os.path.isdir(sys.argv[1])
                        else os.path.join(ROOT, "build/release"))
SMALL = ["-b", "8", "-e", "4K", "-f", "8", "-n", "20", "--pauses", "0"]


class Sweep(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.out = os.path.join(self.folder, "made")

    def sweep(self, *words, **environment):
        command = [sys.executable, os.path.join(ROOT, "perf/suite/sweep.py"), "--build", BUILD,
                   "--out", self.out, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False,
                              env=dict(os.environ, **environment))

    def made(self):
        with open(self.out + ".html", encoding="utf-8") as stream:
            return results.read(self.out + ".json"), stream.read()

    def test_soft_sweep_makes_a_result_file_and_a_report_and_is_compared(self):
        done = self.sweep("--soft", *SMALL, "--qps", "1,2", "--note", "a test")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("run 6 of 6", done.stderr)
        value, page = self.made()
        self.assertEqual((value["kind"], value["notes"], len(value["series"])),
                         ("soft", ["a test"], 6))
        self.assertEqual({one["operation"] for one in value["series"]},
                         {"latency", "sendrecv one way", "all_reduce"})
        self.assertTrue(all(point["verified"] for one in value["series"]
                            for point in one["points"]))
        self.assertTrue(all("latency_us" in point for one in value["series"]
                            if one["operation"] == "latency" for point in one["points"]))
        self.assertTrue(all(point["cpu_seconds_per_gb"] > 0 for one in value["series"]
                            for point in one["points"] if "bandwidth" in point))
        extras = {one["operation"]: one["points"][0]["extra"] for one in value["series"]}
        one_way = extras["sendrecv one way"]
        self.assertAlmostEqual(one_way["messages_per_us"] * one_way["time_us"], 1)
        self.assertGreater(extras["all_reduce"]["in_place_time_us"], 0)
        self.assertIn("software fabric on this host, not RDMA (triangle.json); a test", page)
        done = self.sweep("--compare", self.out + ".json", self.out + ".json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("B compared with A", self.made()[1])

    def test_hosts_are_reached_by_a_command(self):
        ssh = os.path.join(self.folder, "ssh")
        with open(ssh, "w", encoding="utf-8") as stream:
            stream.write('#!/bin/bash\nexport NCCL_MESH_HOST=$1; shift\nexec bash -c "$*"\n')
        os.chmod(ssh, stat.S_IRWXU)
        # The software fabric between "hosts" that all are this one; its names resolve to nothing,
        # so the rendezvous is an address.
        fabric = os.path.join(self.folder, "pair.json")
        with open(os.path.join(ROOT, "perf/fabrics/pair.json"),
                  encoding="utf-8") as stream, open(fabric, "w", encoding="utf-8") as copy:
            copy.write(stream.read().replace('"name": "a"', '"name": "127.0.0.1"').replace(
                '"name": "b"',
                '"name": "127.0.0.2"').replace('"a/', '"127.0.0.1/').replace('"b/', '"127.0.0.2/'))
        done = self.sweep("--hosts", "127.0.0.1,127.0.0.2", "--ssh", ssh, "--port",
                          str(20000 + os.getpid() % 10000), *SMALL, "--qps", "2",
                          NCCL_MESH_FABRIC="soft:" + fabric)
        self.assertEqual(done.returncode, 0, done.stderr)
        value, _ = self.made()
        self.assertEqual(value["kind"], "soft")
        self.assertEqual([(one["operation"], one["qps"]) for one in value["series"]],
                         [("latency", 2), ("sendrecv one way", 2), ("all_reduce", 2)])

    def test_a_run_that_fails_is_named_and_the_others_stay(self):
        done = self.sweep("--soft", *SMALL, "--qps", "1", "--operations", "bandwidth,alltoall",
                          "--", "--one-way")
        self.assertEqual(done.returncode, 1)
        self.assertIn("alltoall qps 1", done.stderr)
        self.assertIn("one way needs sendrecv between exactly 2 ranks", done.stderr)
        value, _ = self.made()
        self.assertEqual([one["operation"] for one in value["series"]], ["sendrecv one way"])
        self.assertTrue(value["notes"][0].startswith("failed: alltoall qps 1"), value["notes"])

    def test_what_is_not_built_is_said(self):
        done = self.sweep("--model", "--build", self.folder)
        self.assertEqual(done.returncode, 77)
        self.assertIn("mesh_model is not built", done.stderr)


if __name__ == "__main__":
    unittest.main()
