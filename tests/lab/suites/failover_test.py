"""Paths that fail and come back while every byte is verified: the job goes on. Cables pulled, an
address taken away, a port that swallows everything; the only path away for three seconds; and away
for good, which is a clear error. Each failure happens twice (once if brief), or as often as
MESH_LAB_FAILURES says; TIMES in an action is that number. The management network is dead for
MESH_LAB_SILENT_S seconds (60)."""

import os
import shlex
import sys

sys.dont_write_bytecode = True
import lab_case

SILENT_S = int(os.environ.get("MESH_LAB_SILENT_S", "60"))
TIMES = int(os.environ.get("MESH_LAB_FAILURES", "1" if lab_case.BRIEF else "2"))
# The first rank of host `actor` acts every time some traffic has gone through its management-free
# interfaces, so that every failure meets a job at work, and the job lasts until all of it is done,
# however slow the hosts are.
SCRIPT = """
said=/run/said$LOCAL_RANK
traffic() {
  cat /sys/class/net/mesh*/statistics/[rt]x_bytes | awk '{ sum += $1 } END { print sum }'
}
flow() {
  local from=$(traffic)
  until [ $(($(traffic) - from)) -gt 300000 ]; do
    [ ! -e /run/ended ] && sleep 0.05 || return
  done
}
says() { until grep -q "$1" $said; do [ ! -e /run/ended ] && sleep 0.2 || return; done; }
# PATTERN COMMAND...: runs the command and waits until the job has said so once more.
makes_say() {
  local pattern=$1 before=$(grep -c "$1" $said)
  shift
  "$@"
  until [ $(grep -c "$pattern" $said) -gt $before ]; do
    [ ! -e /run/ended ] && sleep 0.2 || return
  done
}
act() {
  for ((time = 0; time < %(times)d; ++time)); do
    flow || break
    %(action)s
  done
  echo "acted $time times"
  %(at_the_end)s
  touch /run/acted
}
%(before)s
: >$said
[ $LAB_HOST$LOCAL_RANK != %(actor)s0 ] || act &
%(perf)s %(kind)s -b 96K -e 96K --until /run/acted --fabric rdma -w 0 -n 1 -v \\
  --timeout %(timeout)d 2>&1 | tee $said
code=${PIPESTATUS[0]}
touch /run/ended
[ $LAB_HOST$LOCAL_RANK != %(actor)s0 ] || wait
exit $code
"""
# Prints how long the next traffic takes.
CLOCKED = """
clocked() {
  local from=$(date +%s%3N)
  flow
  echo "clocked: $1 $(($(date +%s%3N) - from)) ms"
}
"""
RENDEZVOUS_OVER_THE_CABLE = CLOCKED + "export MESH_RENDEZVOUS=10.1.12.1:29500"
MOMENT = """
moment() { echo "$1 at $(date +%s%3N) ms"; }
"""
# Without control no lost path is replaced, so none may be lost because a host stands still.
SILENT = {"NCCL_SOCKET_IFNAME": "=mgmt0", "NCCL_MESH_PATH_TIMEOUT": "60", "NCCL_IB_TIMEOUT": "20"}
CONTROL_OVER_THE_CABLES = RENDEZVOUS_OVER_THE_CABLE + "; ip link set mgmt0 down"
# The card's driver lets go of it. The kernel waits until the job has closed its RDMA device.
UNBIND = CLOCKED + """
unbind() {
  local card=$(readlink -f /sys/class/net/$1/device)
  basename "$card" >"$(readlink -f "$card/driver")/unbind"
}
"""
PATHS_ARE_BACK = "says ' is back after '"


def limit_s(times):
    """Returns thirty times what so many failures take on a machine that has nothing else to do."""
    return 900 + 180 * times


class FailoverCase(lab_case.LabCase):
    """A verified collective that lasts until host a has broken what it was told to."""

    kind = "all_reduce"
    where = {}  # run_lab()'s options of hosts and ranks

    def fail_over(self, topology, action, *, times=TIMES, before=":", at_the_end=":",
                  env=None):
        perf = shlex.quote(lab_case.built("perf/mesh_perf/mesh_perf"))
        script = SCRIPT % {"times": times, "actor": "a", "action": action, "at_the_end": at_the_end,
                           "perf": perf, "kind": self.kind, "before": before,
                           "timeout": limit_s(times)}
        return self.run_lab(topology, script, timeout=limit_s(times), **self.where,
                            # An emulated host may stand still for half a minute on a busy machine.
                            env={"NCCL_IB_TIMEOUT": "16", "NCCL_MESH_RAILS": "all",
                                 "NCCL_MESH_PATH_TIMEOUT": "300", **(env or {})})

    def went_on(self, lab, times=TIMES):
        self.assertEqual(lab.code, 0)
        self.assertIn("acted %d times" % times, lab.lines("a"))
        self.assertIn("# Out of bounds values : 0 OK", lab.text)
        lost = [line for line in lab.text.splitlines() if " is lost: " in line and " path " in line]
        back = [line for line in lab.text.splitlines() if " is back after " in line]
        again = sum(int(line.split(" stripes are sent again")[0].split()[-1])
                    for line in lab.text.splitlines()
                    if " stripes are sent again" in line)
        name = self.id().split(".")[-1]
        print("%s: %d times, %d paths lost, %d back, %d stripes sent again" %
              (name, times, len(lost), len(back), again))
        self.assertTrue(lost, "nothing was lost")
        self.assertTrue(back, "nothing came back")


class Failover(FailoverCase):
    def test_paths_of_a_triangle_fail_in_every_way(self):
        ways = (
            "c=$(set -- ab0 ac1 ab1 ac0; shift $((time / 3 % 4)); echo $1); lab cut $c; sleep 1; "
            "lab restore $c",
            "ip addr del 10.1.12.1/24 dev mesh1; sleep 1; ip addr add 10.1.12.1/24 dev mesh1",
            "tc qdisc add dev mesh2 root netem loss 100%; sleep 2; tc qdisc del dev mesh2 root")
        chosen = " ;; ".join("%d) %s" % (number, way) for number, way in enumerate(ways))
        times = len(ways) * TIMES
        self.went_on(self.fail_over("triangle2", "case $((time %% %d)) in %s ;; esac; sleep 1" %
                                    (len(ways), chosen), times=times,
                                    at_the_end=PATHS_ARE_BACK), times)

    def test_the_only_path_comes_back_and_then_stays_away(self):
        # The last time only the job's own error ends it.
        for_good = "echo cut for good; until [ -e /run/ended ]; do sleep 0.2; done"
        away = ("if ((time == %d)); then lab cut ab; %s; else makes_say ' is lost: ' lab cut ab; "
                "sleep 3; makes_say ' is back after ' lab restore ab; fi" % (TIMES, for_good))
        # The time-out is so long that a host that stands still for a while does not end the job.
        lab = self.fail_over("pair", away, times=TIMES + 1, env={"NCCL_MESH_PATH_TIMEOUT": "60"})
        self.assertEqual(lab.code, 1)
        before, cut, after = lab.text.partition("cut for good")
        self.assertTrue(cut, "the job ended before the last cut")
        self.assertGreaterEqual(lab.text.count(" is back after "), 2 * TIMES)
        self.assertNotIn("has come back within", before)
        self.assertRegex(
            after,
            r"peer [ab]: its only path has not come back within 60 s \(NCCL_MESH_PATH_TIMEOUT\)")
        self.assertIn("rxe_mesh0:1 10.0.12.1 -> rxe_mesh0:1 10.0.12.2", after)

    @lab_case.at_length
    def test_control_over_the_cable_that_is_cut(self):
        lab = self.fail_over(
            "pair2", "clocked before; lab cut ab0; clocked after; sleep 3; makes_say "
            "' is back after ' lab restore ab0", before=CONTROL_OVER_THE_CABLES,
            env={"NCCL_SOCKET_IFNAME": "=mesh0,mesh1"})
        self.went_on(lab)
        self.print_clocks(lab)

    @lab_case.at_length
    def test_a_management_network_that_is_dead_for_a_while_ends_nothing(self):
        lab = self.fail_over(
            "pair2", "clocked before; ip link set mgmt0 down; clocked after; sleep %d; "
            "lab cut ab0; sleep 10; ip link set mgmt0 up; clocked cut; makes_say ' is back after ' "
            "lab restore ab0" % (SILENT_S - 10), before=RENDEZVOUS_OVER_THE_CABLE,
            env=SILENT)
        self.went_on(lab)
        self.print_clocks(lab)

    @lab_case.at_length
    def test_a_host_that_dies_while_the_management_network_is_dead_is_a_named_error(self):
        lab = self.fail_over(
            "pair2", "ip link set mgmt0 down; sleep %d; clocked silent; moment killed; lab kill b; "
            "until [ -e /run/ended ]; do sleep 0.2; done; moment ended" % SILENT_S, times=1,
            before=RENDEZVOUS_OVER_THE_CABLE + MOMENT,
            env=SILENT)
        self.assertEqual(lab.code, 1)
        before, killed, after = lab.text.partition("killed at ")
        self.assertTrue(killed, "the job ended before the host died")
        self.assertNotRegex(before, r"peer b is lost|has come back within")
        self.assertRegex(after, r"peer b(: none of its 2 paths has come back within 60 s| is lost: "
                                r"no way back to its control port)")
        moments = [int(line.split()[2]) for line in lab.lines("a") if " at " in line and
                   line.split()[0] in ("killed", "ended")]
        print("%s: %d s without control, then an error %.1f s after the end of its host" % (
            self.id().split(".")[-1], SILENT_S, (moments[1] - moments[0]) / 1000))
        self.print_clocks(lab)

    @lab_case.at_length
    def test_a_card_leaves_with_its_device(self):
        lab = self.fail_over("pair2", "clocked before; unbind mesh1 & says ' the card left'; "
                             "clocked after; clocked later", times=1, before=UNBIND)
        self.assertEqual(lab.code, 0)
        self.assertIn("# Out of bounds values : 0 OK", lab.text)
        for host in "ab":
            self.assertRegex("\n".join(lab.lines(host)),
                             r"path rxe_mesh1:1 \S+ -> rxe_mesh1:1 \S+ is lost: (host a: )?"
                             "the card left")
        self.print_clocks(lab)

    def print_clocks(self, lab):
        print("%s, rdma (soft-RoCE, emulated): time for the next 300 kB: %s" % (
            self.id().split(".")[-1], ", ".join(
                line.split(": ", 1)[1] for line in lab.lines("a") if line.startswith("clocked: "))))


if __name__ == "__main__":
    lab_case.main()
