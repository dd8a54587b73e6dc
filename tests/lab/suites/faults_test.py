"""Breaks, for good and while traffic flows, the only cable, a process, a host. The bound follows
from our own retry defaults (0.27 s a try, six retries: two seconds) and from how long we let a path
be away here (15 s), thirty times as much for hosts emulated on a busy machine. A fault that nobody
notices would go on for half an hour."""

import shlex
import sys

sys.dont_write_bytecode = True
import lab_case

BOUND_MS = 510000
# In the job over two cables a host's link to itself moves to its other port. It must get there
# before the link over the cut cable is given up.
PATIENT_S, PATIENT_BOUND_MS = 45, 1410000
# With nothing under way to a dead host, only the control connection's keep-alive can tell: 20 s.
DEAD_HOST_BOUND_MS = 600000
JOB_S_MAX = 1800
# Host `actor` acts once half a megabyte has gone through its first cable. Clocks of the hosts
# differ, by some seconds on a busy machine: the order of their lines tells what came first.
SCRIPT = """
traffic() {
  local sent received
  read sent <$1/tx_bytes; read received <$1/rx_bytes; echo $((sent + received))
}
now() { echo "$1 at $(date +%%s%%3N) ms"; }
act() {
  local figures=/sys/class/net/mesh0/statistics before
  before=$(traffic $figures)
  until [ $(($(traffic $figures) - before)) -gt 500000 ]; do sleep 0.05; done
  now acted
  %(action)s
}
[ $LAB_HOST != %(actor)s ] || act &
%(perf)s %(run)s --fabric rdma -w 1 -c 1 --timeout %(timeout)d -n 1000000
code=$?
now ended
exit $code
"""


def moment(lab, what, host):
    """Returns the time that a host printed, in milliseconds."""
    found = [line.split()[2] for line in lab.lines(host) if line.startswith(what + " at ")]
    return int(found[0]) if found else None


class Faults(lab_case.LabCase):
    def break_it(self, topology, actor, action, run, path_timeout_s=15):
        """Runs without relays: a host that is left with one cable of two would be reached the other
        way round, and nothing would break."""
        perf = shlex.quote(lab_case.built("perf/mesh_perf/mesh_perf"))
        script = SCRIPT % {"actor": actor, "action": action, "run": run, "perf": perf,
                           "timeout": JOB_S_MAX}
        return self.run_lab(topology, script, timeout=JOB_S_MAX + 60,
                            env={"NCCL_IB_TIMEOUT": "16",
                                 "NCCL_MESH_PATH_TIMEOUT": str(path_timeout_s),
                                 "NCCL_MESH_RELAY": "0"})

    def ended_soon(self, lab, actor, hosts, bound_ms=BOUND_MS):
        acted = moment(lab, "acted", actor)
        self.assertIsNotNone(acted, "nothing was broken")
        for host in hosts:
            ended = moment(lab, "ended", host)
            self.assertIsNotNone(ended, "host %s did not end" % host)
            self.assertLess(ended - acted, bound_ms, "host %s" % host)
            self.assertLess(lab.text.index("%s: acted at" % actor),
                            lab.text.index("%s: ended at" % host),
                            "host %s ended before anything broke" % host)

    def warnings(self, lab, host):
        return [line for line in lab.lines(host) if " WARN " in line]

    def test_a_cut_cable_is_named_and_no_other(self):
        lab = self.break_it("triangle", "a", "lab cut ab", "alltoall -b 96K -e 96K", PATIENT_S)
        self.assertEqual(lab.code, 1)
        self.ended_soon(lab, "a", "abc", PATIENT_BOUND_MS)
        over = [line for host in "abc" for line in self.warnings(lab, host)
                if "NCCL_MESH_PATH_TIMEOUT" in line]
        self.assertTrue(over, "nobody names a cable")
        for line in over:
            self.assertRegex(
                line,
                r"peer [ab]: (its end of the link failed: )?its only path has not come back "
                r"within 45 s "
                r"\(NCCL_MESH_PATH_TIMEOUT\).*"
                r"(rxe_mesh0:1 10\.0\.12\.1 -> rxe_mesh0:1 10\.0\.12\.2|"
                r"rxe_mesh0:1 10\.0\.12\.2 -> rxe_mesh0:1 10\.0\.12\.1)")

    def test_a_killed_host_is_noticed_by_its_sender(self):
        lab = self.break_it("pair", "b", "lab kill b", "sendrecv --one-way -b 96K -e 96K")
        self.assertEqual(lab.code, 1)
        self.ended_soon(lab, "b", "a", DEAD_HOST_BOUND_MS)
        self.assertRegex("\n".join(self.warnings(lab, "a")),
                         r"peer b(: its only path has not come back| is lost: no way back to its "
                                                             r"control port)")

    def test_a_killed_host_is_noticed_by_its_receiver(self):
        lab = self.break_it("pair", "a", "lab kill a", "sendrecv --one-way -b 96K -e 96K")
        self.assertEqual(lab.code, 1)
        self.ended_soon(lab, "a", "b", DEAD_HOST_BOUND_MS)
        self.assertRegex("\n".join(self.warnings(lab, "b")), r"peer (a|10\.255\.0\.1:\d+)\b")


if __name__ == "__main__":
    lab_case.main()
