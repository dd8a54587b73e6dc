"""mesh_doctor over rdma between lab hosts: healthy hosts have no finding between them; a smaller
MTU, a smaller MTU on the way, a wrong subnet and crossed cables have theirs. What an emulated host
lacks by itself is not judged here."""

import json
import shlex
import sys

sys.dont_write_bytecode = True
import lab_case

BETWEEN = {"host-missing", "host-lost", "handshake-network", "no-map", "missing-cable",
           "extra-cable", "crossed-cables", "wrong-subnet", "lone-rail", "cable-down",
           "half-missing", "mtu-differs", "mtu-black-hole", "silent-cable", "flapping-port",
           "slow-cable", "slow-half", "sick-direction", "rank-order"}
ANOTHER_SUBNET = """[[ $(hostname) != c ]] || {
  ip address flush dev mesh0
  ip address add 10.99.0.2/24 dev mesh0
}"""


class Doctor(lab_case.LabCase):
    def look(self, topology, before=":"):
        """The names of rank 0's findings between hosts, and all that it reports."""
        # An emulated cable carries a hundredth of what its port says.
        doctor = "%s --json --quick --threshold 0.01 --timeout 300" % (
            shlex.quote(lab_case.built("perf/mesh_doctor/mesh_doctor")))
        lab = self.run_lab(topology, "%s\n%s; (($? < 3))" % (before, doctor))
        self.assertEqual(lab.code, 0)
        text = "\n".join(lab.lines("a"))
        report = json.loads(text[text.index("{\n"):text.rindex("\n}") + 2])
        return [each["name"] for each in report["findings"] if each["name"] in BETWEEN], report

    def test_healthy_hosts_have_no_finding_between_them(self):
        names, report = self.look("triangle")
        self.assertEqual(names, [])
        self.assertEqual(len(report["cables"]), 3)
        for cable in report["cables"]:
            self.assertTrue(all(each["passed"] for each in cable["measured"]), cable)

    def test_a_smaller_mtu_on_one_side(self):
        names, report = self.look("odd_mtu")
        every = {each["name"] for each in report["findings"]}
        self.assertEqual([name for name in names if name != "mtu-differs"], [])
        self.assertTrue({"mtu-differs", "mtu-small"} & every, every)

    @lab_case.at_length
    def test_a_smaller_mtu_on_the_way(self):
        self.assertEqual(self.look("black_hole")[0], ["mtu-black-hole"])

    @lab_case.at_length
    def test_crossed_cables_in_one_subnet_are_silent(self):
        self.assertEqual(self.look("odd_crossed")[0], ["silent-cable", "silent-cable"])

    @lab_case.at_length
    def test_a_wrong_subnet(self):
        self.assertEqual(self.look("triangle", ANOTHER_SUBNET)[0], ["lone-rail", "lone-rail"])


if __name__ == "__main__":
    lab_case.main()
