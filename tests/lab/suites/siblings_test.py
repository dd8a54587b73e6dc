"""Several ranks on each host, over real verbs: every byte of an all-reduce and of an all-to-all in
several sizes, then an all-to-all that loses a cable and gets it back. Ranks of one host meet
through its card, whose port goes down with its cable."""

import shlex
import sys

sys.dont_write_bytecode = True
import failover_test
import lab_case

# A rank that is still in the run before keeps its port: each run has its own.
SIZES = """
for kind in all_reduce alltoall; do
  MESH_RENDEZVOUS=${MESH_RENDEZVOUS%%:*}:$((29500 + ++count)) \\
    %s $kind -b 8 -e 256K -f 32 -n 1 -w 0 -c 1 --fabric rdma --timeout 900 || exit 1
done
"""
# Each rank of the host that acts has its paths to the neighbour back.
CUT = "makes_say ' is lost: ' lab cut ab; sleep 1; lab restore ab"
ALL_BACK = """
for said in /run/said?; do says ' is back after '; done"""

# Soft-RoCE takes no net device on the way from a port to itself: its packets are counted instead.
PACKETS = """
traffic() {
  cat /sys/class/infiniband/*/ports/1/hw_counters/sent_pkts |
    awk '{ sum += 1500 * $1 } END { print sum }'
}
"""


class Siblings(failover_test.FailoverCase):
    kind = "alltoall"
    where = {"ranks_per_host": 2}

    def sizes(self):
        return SIZES % shlex.quote(lab_case.built("perf/mesh_perf/mesh_perf"))

    def test_two_on_each_of_two_hosts(self):
        lab = self.fail_over("pair", CUT, times=1, before=self.sizes(), at_the_end=ALL_BACK)
        self.went_on(lab, 1)
        self.assertEqual(lab.text.count("# Out of bounds values : 0 OK"), 3)
        for rank in range(4):
            for words in (" is lost: ", " is back after "):
                self.assertRegex(lab.text, "rank %d: .* path .*%s" % (rank, words))

    @lab_case.at_length
    def test_two_on_each_host_of_a_triangle(self):
        lab = self.fail_over("triangle", CUT, times=1, before=self.sizes(), at_the_end=ALL_BACK)
        self.went_on(lab, 1)
        self.assertEqual(lab.text.count("# Out of bounds values : 0 OK"), 3)

    @lab_case.at_length
    def test_two_on_one_host(self):
        self.where = {"ranks_per_host": 2, "on": "a"}
        lab = self.fail_over("pair", CUT, times=1, before=self.sizes() + PACKETS,
                             at_the_end=ALL_BACK)
        self.went_on(lab, 1)
        self.assertEqual(lab.text.count("# Out of bounds values : 0 OK"), 3)


if __name__ == "__main__":
    lab_case.main()
