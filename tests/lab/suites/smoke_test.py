"""One boot for the first ring of the tests: two hosts with two cables. A verified all-reduce over
real verbs in several sizes, then one that loses a cable and gets it back."""

import shlex
import sys

sys.dont_write_bytecode = True
import failover_test
import lab_case


class Smoke(failover_test.FailoverCase):
    def test_an_all_reduce_is_right_and_outlives_a_cable(self):
        sizes = "%s all_reduce -b 1K -e 256K -f 16 -n 2 -w 1 -c 1 --fabric rdma || exit 1" % (
            shlex.quote(lab_case.built("perf/mesh_perf/mesh_perf")))
        lab = self.fail_over("pair2", "makes_say ' is lost: ' lab cut ab0; lab restore ab0",
                             times=1, before=sizes, at_the_end=failover_test.PATHS_ARE_BACK)
        self.went_on(lab, 1)
        self.assertEqual(lab.text.count("# Out of bounds values : 0 OK"), 2)


if __name__ == "__main__":
    lab_case.main()
