"""Hosts that are not neighbours, on real verbs: every byte of an all-to-all and of an all-reduce in
a line and in a ring, and a triangle that loses a cable and goes on over its third host."""

import shlex
import sys

sys.dont_write_bytecode = True
import lab_case

TIMEOUT_S = 1800  # thirty times what a run takes on a machine that has nothing else to do
OVER = " carries messages"
JOB = "-w 0 -n 1 -v --fabric rdma --timeout 1500"
BOTH = """
%(perf)s alltoall -b 8 -e 256K -f 32 %(job)s || exit
# A host that is still in the run before keeps its port.
MESH_RENDEZVOUS=a:29600 %(perf)s all_reduce -b 8 -e 256K -f 32 %(job)s
"""
# The job lasts until it has gone on over the third host, however slow the hosts are.
CUT = """
flow() {
  local from=$(cat /sys/class/net/mesh1/statistics/tx_bytes)
  until [ $(($(cat /sys/class/net/mesh1/statistics/tx_bytes) - from)) -gt 300000 ]; do
    [ ! -e /run/ended ] && sleep 0.05 || return
  done
}
says() { until grep -q "$1" /run/said; do [ ! -e /run/ended ] && sleep 0.2 || return; done; }
act() {
  flow
  lab cut ab
  says 'peer b: relayed path .* over host c carries messages'
  flow
  touch /run/acted
}
: >/run/said
[ $LAB_HOST != a ] || act &
%(perf)s alltoall -b 96K -e 96K --until /run/acted %(job)s 2>&1 | tee /run/said
code=${PIPESTATUS[0]}
touch /run/ended
[ $LAB_HOST != a ] || wait
exit $code
"""


class Relay(lab_case.LabCase):
    def verified(self, topology, script, tables, env=None):
        perf = shlex.quote(lab_case.built("perf/mesh_perf/mesh_perf"))
        lab = self.run_lab(topology, script % {"perf": perf, "job": JOB}, timeout=TIMEOUT_S,
                           env=env)
        self.assertEqual(lab.code, 0)
        self.assertEqual(lab.text.count("# Out of bounds values : 0 OK"), tables)
        return lab

    def routes(self, lab, host):
        """Returns the hosts over which this host reached others, as its lines say."""
        found = [line for line in lab.lines(host) if "relayed path" in line and OVER in line]
        return {line.split(" over host ")[1].split(OVER)[0] for line in found}

    @lab_case.at_length  # the ring shows one host between, too
    def test_line3(self):
        lab = self.verified("line3", BOTH, 2)
        for host in "ac":
            self.assertEqual(self.routes(lab, host), {"b"})

    def test_ring4(self):
        lab = self.verified("ring4", BOTH, 2)
        for host, between in (("a", "bd"), ("b", "ac"), ("c", "bd"), ("d", "ac")):
            self.assertTrue(self.routes(lab, host))
            self.assertLessEqual(self.routes(lab, host), set(between))

    def test_a_triangle_without_a_cable_goes_on(self):
        lab = self.verified("triangle", CUT, 1, {"NCCL_IB_TIMEOUT": "16"})
        for host in "ab":
            self.assertEqual(self.routes(lab, host), {"c"})


if __name__ == "__main__":
    lab_case.main()
