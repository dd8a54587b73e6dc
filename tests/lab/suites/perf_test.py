"""mesh_perf over rdma between lab hosts: what the table is called, that every byte is right, both
halves of a cable; the collectives in a triangle, in whatever order its cables are plugged; a sweep
beside perftest. Figures are printed, not judged: an emulated host says nothing about a real one."""

import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import lab_case

LABEL = "rdma (soft-RoCE, emulated)"
ROW = re.compile(r"^ +(\d+) +\d+ +\w+ +\w+ +-1 +([0-9.]+) +([0-9.]+) +([0-9.]+) +(\d+)")


def rows(lab):
    """Returns the rows of rank 0's tables: (bytes, time in us, GB/s, wrong)."""
    found = [ROW.match(line) for line in lab.lines("a")]
    return [(int(row[1]), float(row[2]), float(row[3]), int(row[5])) for row in found if row]


def tell(text):
    print("  %s: %s" % (LABEL, text), file=sys.stderr)


class Perf(lab_case.LabCase):
    def setUp(self):
        self.perf = shlex.quote(lab_case.built("perf/mesh_perf/mesh_perf"))

    def good_rows(self, lab, count):
        self.assertEqual(lab.code, 0)
        found = rows(lab)
        self.assertEqual(len(found), count)
        self.assertEqual([row[3] for row in found], [0] * count, "wrong data")
        return found

    # There are so many messages that a busy machine's effect on a few of them does not matter.
    def test_both_halves_of_a_cable_carry_one_connection(self):
        script = """
        figures() {
          local half verbs=/sys/class/infiniband
          for half in mesh0 mesh1; do
            echo $1 $half $(cat /sys/class/net/$half/statistics/tx_bytes \\
              $verbs/rxe_$half/ports/1/hw_counters/sent_pkts)
          done
        }
        figures before
        %s sendrecv --one-way --channels 1 --fabric rdma -b 1M -e 1M -n 300 -w 2 -c 1 -v
        code=$?
        figures after
        exit $code""" % self.perf
        lab = self.run_lab("pair2", script, env={"NCCL_MESH_RAILS": "all"})
        self.good_rows(lab, 1)
        sent = {}
        for line in lab.lines("a"):
            words = line.split()
            if words and words[0] in ("before", "after"):
                sign = 1 if words[0] == "after" else -1
                for kind, value in zip(("bytes", "packets"), words[2:]):
                    sent[words[1], kind] = sent.get((words[1], kind), 0) + sign * int(value)
        for kind in ("bytes", "packets"):
            first, second = sent["mesh0", kind], sent["mesh1", kind]
            tell("two halves of one cable, one connection: %d and %d %s" % (first, second, kind))
            self.assertGreater(min(first, second), 0)
            self.assertLess(abs(first - second) / max(first, second), 0.10, kind)

    @lab_case.at_length
    def test_sweep_beside_perftest(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "made")
            sweep = os.path.join(lab_case.ROOT, "perf/suite/sweep.py")
            command = [sys.executable, sweep, "--build", lab_case.built("."), "--lab", "pair",
                       "--quick", "--perftest",
                       "-b", "8", "-e", "4K", "-f", "512", "-n", "20", "--out", out]
            done = subprocess.run(command, capture_output=True, text=True, timeout=3000,
                                  check=False)
            if done.returncode == lab_case.EXIT_CANNOT and os.environ.get(
                "MESH_LAB_REQUIRED") != "1":
                self.skipTest(done.stderr.strip().splitlines()[-1])
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(out + ".json", encoding="utf-8") as stream:
                made = json.load(stream)
        self.assertEqual((made["kind"], made["label"]), ("rdma", LABEL))
        programs = ("latency", "sendrecv one way", "all_reduce", "ib_write_bw", "ib_write_lat",
                    "ib_send_lat")
        self.assertEqual({series["operation"]: [point["bytes"] for point in series["points"]]
                          for series in made["series"]},
                         {name: [8, 4096] for name in programs})
        ours = [point for series in made["series"] for point in series["points"]
                if not series["operation"].startswith("ib_")]
        self.assertTrue(all(point["verified"] for point in ours), "wrong data")
        tell("beside perftest:\n" + done.stdout)

    def test_triangle_cabled_in_every_order(self):
        # A host's devices are ordered by their names: each is made again under the other one's
        # name.
        script = """
        swap() { for i in 0 1; do rdma link del rxe_mesh$i || exit; done
                 for i in 0 1; do
                   rdma link add rxe_mesh$i type rxe netdev mesh$((i ^ $1)) || exit
                 done; }
        for order in 0 1 2 3 4 5 6 7; do
          swap $(((order >> RANK) & 1))
          export MESH_RENDEZVOUS=a:$((29500 + order))
          echo "order $order"
          %s alltoall --fabric rdma -b 16K -e 16K -n 2 -w 1 -c 1 || exit
        done
        export MESH_RENDEZVOUS=a:29600
        %s all_reduce --fabric rdma -b 1K -e 256K -f 16 -n 2 -w 1 -c 1""" % (self.perf, self.perf)
        lab = self.run_lab("triangle", script)
        self.good_rows(lab, 8 + 3)

    # MESH_LAB_OTHER_PLUGIN names the plugin to compare with, of an older commit as a rule.
    @lab_case.at_length
    def test_two_plugins_in_turns(self):
        plugins = {"ours": lab_case.built("plugin/libnccl-net-mesh.so")}
        plugins["other"] = os.environ.get("MESH_LAB_OTHER_PLUGIN", plugins["ours"])
        times = int(os.environ.get("MESH_LAB_TIMES", "2"))
        self.compare(plugins, times, "-b 256 -e 16K -f 4 -n 40 -w 5", 4)
        self.compare(plugins, times, "-b 64K -e 4M -f 4 -n 8 -w 2", 4)

    def compare(self, plugins, times, sizes, count):
        script = """
        port=29500
        for i in $(seq %d); do
          for plugin in "$ours" "$other" "$other" "$ours"; do
            export MESH_RENDEZVOUS=a:$((port += 1))
            %s sendrecv --plugin "$plugin" --fabric rdma %s -c 1 --timeout 200 || exit
          done
        done""" % (times, self.perf, sizes)
        lab = self.run_lab("pair", script, env={
            name: os.path.abspath(path) for name, path in plugins.items()})
        self.assertEqual(lab.code, 0)
        found = rows(lab)
        self.assertEqual(len(found), 4 * times * count)
        turns = [found[i:i + count] for i in range(0, len(found), count)]
        for row, (size, *_) in enumerate(found[:count]):
            ours, other = (statistics.median(turn[row][1] for i, turn in enumerate(turns)
                                             if (i % 4 in (0, 3)) == own) for own in (True, False))
            tell("%d bytes, medians of %d: other %.0f us, ours %.0f us"
                 % (size, 2 * times, other, ours))


if __name__ == "__main__":
    lab_case.main()
