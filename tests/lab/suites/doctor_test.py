"""mesh_doctor over rdma between lab hosts: healthy hosts have no finding, each planted fault has
its own and no other. What needs no kernel is planted in tests/unit/perf/doctor_fabric_test.cc."""

import json
import shlex
import sys

sys.dont_write_bytecode = True
import lab_case

BETWEEN = {"host-missing", "host-lost", "handshake-network", "missing-cable",
           "extra-cable", "crossed-cables", "wrong-subnet", "lone-rail",
           "ends-do-not-fit", "shared-subnet", "cable-down", "half-missing", "mtu-differs",
           "mtu-black-hole",
           "silent-cable", "forward-drop", "flapping-port", "slow-cable", "slow-half",
           "sick-direction", "rank-order"}
# The findings of one host about itself: the name of each, and how a line of shell that runs the
# doctor plants its cause.
PLANTED = {
    "healthy": "%s",
    "memlock-small": "(ulimit -l 64; exec setpriv --bounding-set=-ipc_lock %s)",
    "gid-pinned": "NCCL_IB_GID_INDEX=30 %s",
    "nccl-too-old": "LD_LIBRARY_PATH=/tmp/old %s",
    "two-nccl": "PYTHONPATH=/tmp/python %s",
    "foreign-plugin": "NCCL_NET_PLUGIN=/tmp/foreign/libnccl-net.so %s",
    "plugin-not-chosen": "env -u NCCL_NET_PLUGIN %s",
    "plugin-missing": "NCCL_NET_PLUGIN=/tmp/nowhere/libnccl-net-mesh.so %s",
}
PLANTS = """of_python=/tmp/python/nvidia/nccl/lib
mkdir -p /tmp/old /tmp/new /tmp/foreign $of_python
printf 'ELF NCCL version 2.4.8+cuda10.1 ' >/tmp/old/libnccl.so.2
printf 'ELF NCCL version 2.29.7+cuda13.0 ' >/tmp/new/libnccl.so.2
printf 'ELF NCCL version 2.30.1+cuda13.0 ' >$of_python/libnccl.so.2
printf 'ELF NET/OFI ' >/tmp/foreign/libnccl-net.so
export LD_LIBRARY_PATH=/tmp/new
"""
# An emulated cable carries a hundredth of what its port says, and a tenth of that on a busy
# machine.
ANY_RATE = 0.001
# In seconds. A path that lets nothing pass is silent for ever, and beside busy loops an emulated
# host needs more time for a connection than hardware does.
PATIENCE = 60
SLOW = "rate 4mbit"
A_RATE = 0.01  # of the port's 2.5 Gb/s, which is six times SLOW


class Doctor(lab_case.LabCase):
    @lab_case.at_length
    def test_what_one_host_finds(self):
        doctor = shlex.quote(lab_case.built("perf/mesh_doctor/mesh_doctor")) + " --quick"
        chosen = "export NCCL_NET_PLUGIN=%s\n" % shlex.quote(
            lab_case.built("plugin/libnccl-net-mesh.so"))
        script = PLANTS + chosen + "".join(
            "echo PLANTED %s\n%s; echo STATUS $?\n" % (name, how % doctor)
            for name, how in PLANTED.items())
        lab = self.run_lab("pair", script, on="a")
        self.assertEqual(lab.code, 0)
        found, planted = {}, None
        for line in lab.lines("a"):
            word, _, rest = line.partition(" ")
            if word == "PLANTED":
                planted = rest
                found[planted] = []
            elif word in ("WARNING", "BROKEN"):
                found[planted].append(rest.split()[0].rstrip(":"))
        self.assertEqual(found, {name: [] if name == "healthy" else [name] for name in PLANTED})

    def look(self, topology, before=":", options="--patience %d" % PATIENCE, threshold=ANY_RATE):
        """Returns the names of rank 0's findings between hosts, and all that it reports."""
        doctor = "%s --json --quick --threshold %g --timeout 300 %s" % (
            shlex.quote(lab_case.built("perf/mesh_doctor/mesh_doctor")), threshold, options)
        lab = self.run_lab(topology, "%s\n%s; (($? == 0 || $? > 2 || RANK > 0))" % (before, doctor))
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
        self.assertEqual(self.look("black_hole", options="")[0], ["mtu-black-hole"])

    @lab_case.at_length
    def test_crossed_cables_in_one_subnet_are_found(self):
        names, report = self.look("odd_crossed", options="")
        self.assertEqual(names, ["shared-subnet"])
        self.assertEqual(len(report["cables"]), 2)

    @lab_case.at_length
    def test_a_cable_that_carries_too_little(self):
        slow = "[[ $(hostname) == c ]] || tc qdisc add dev mesh0 root netem %s" % SLOW
        self.assertEqual(self.look("pair", slow, threshold=A_RATE)[0], ["slow-cable"])

    @lab_case.at_length
    def test_a_rank_order_without_cables(self):
        swap = "case $RANK in 1) RANK=2 ;; 2) RANK=1 ;; esac"
        self.assertEqual(self.look("ring4", swap)[0], ["rank-order"])

    @lab_case.at_length
    def test_a_port_that_flaps(self):
        flap = """[[ $(hostname) != b ]] || (while sleep 1; do
  ip link set mesh0 down; sleep 0.3; ip link set mesh0 up; done) &"""
        self.assertEqual(self.look("pair", flap)[0], ["flapping-port"])


if __name__ == "__main__":
    lab_case.main()
