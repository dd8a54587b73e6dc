"""Networks that are more than a cable: hosts of different subnets with a router between them, and
without one; a cable that loses full packets and carries small ones."""

import re
import shlex
import sys

sys.dont_write_bytecode = True
import lab_case

VERIFIED = "# Out of bounds values : 0 OK"
# The bar for a whole run of a program that is refused, on hosts that share two busy processors. A
# refusal that one side is not told of would go on until --timeout.
REFUSED_MS_MAX = 60000
ROUTED = """
[ $LAB_HOST != r ] || exit 0
export WORLD_SIZE=2
now() { echo "$1 at $(date +%%s%%3N) ms"; }
%(perf)s all_reduce --fabric rdma -b 1K -e 64K -f 64 -n 2 -w 1 -c 1 --timeout 200 -v
echo "routed: exit status $?"
ip route del $(ip route | grep -o '^10.0.[0-9.]*/24 via [0-9.]*')
ip route del $(ip route | grep -o '^10.1.[0-9.]*/31 via [0-9.]*')
export MESH_RENDEZVOUS=a:29501
now asked
%(perf)s all_reduce --fabric rdma -b 1K -e 1K -n 2 -w 1 -c 1 --timeout 200 -v
echo "without a route: exit status $?"
now ended
"""
BLACK_HOLE = """
%(perf)s all_reduce --fabric rdma -b 64K -e 64K -n 200 -w 1 -c 1 --timeout 400 -v
echo "exit status $?"
"""
# Counts the UDP datagrams of a job by port, on every cable of a host. 4791 is RoCE's.
CAPTURE = """
cat >/run/capture.py <<'TEXT'
import collections, os, select, socket
packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
counts = collections.Counter()
while not os.path.exists("/run/ended") or select.select([packets], [], [], 0.2)[0]:
    if not select.select([packets], [], [], 0.2)[0]:
        continue
    packet, (interface, kind, *_) = packets.recvfrom(80)
    if not interface.startswith("mesh") or kind not in (0x0800, 0x86dd):
        continue
    begin = 4 * (packet[0] & 15) if kind == 0x0800 else 40
    if packet[9 if kind == 0x0800 else 6] == socket.IPPROTO_UDP:
        counts[int.from_bytes(packet[begin + 2:begin + 4], "big")] += 1
print("captured:", *("%%d to port %%d" %% (count, port) for port, count in counts.items()))
TEXT
python3 /run/capture.py & capture=$!
%(perf)s all_reduce --fabric rdma -b 1K -e 64K -f 8 -n 5 -w 1 -c 1 --timeout 400
code=$?
touch /run/ended
wait $capture
exit $code
"""
# One job after the other. The bytes that left by each cable are those of all jobs.
OFTEN = """
sent() { head -q -n1 /sys/class/net/mesh*/statistics/tx_bytes | tr '\\n' ' '; }
before=($(sent))
for time in $(seq %(times)d); do
  export MESH_RENDEZVOUS=a:$((29500 + time))
  %(perf)s all_reduce --fabric rdma -b 256K -e 256K -n 2 -w 1 -c 1 --timeout 400 -v \
    >/run/said 2>&1 && echo verified || tail -5 /run/said
  grep -o 'sending to host .*; per' /run/said
done
after=($(sent))
for cable in "${!before[@]}"; do echo "cable $cable: $((after[cable] - before[cable])) bytes"; done
"""


def moment(lab, what, host):
    """Returns the time that a host printed, in milliseconds."""
    return next(int(line.split()[2]) for line in lab.lines(host) if line.startswith(what + " at "))


class Networks(lab_case.LabCase):
    def perf(self, script, times=1):
        perf = shlex.quote(lab_case.built("perf/mesh_perf/mesh_perf"))
        return script % {"perf": perf, "times": times}

    def test_a_router_is_crossed_and_a_missing_one_is_named_on_both_sides(self):
        lab = self.run_lab("routed", self.perf(ROUTED), timeout=900)
        for host in "ab":
            lines = lab.lines(host)
            self.assertIn("routed: exit status 0", lines, host)
            text = "\n".join(lines)
            self.assertRegex(text, r"rxe_mesh0:1 10\.0\.[12]\.1 -> rxe_mesh0:1 10\.0\.[12]\.1")
            self.assertRegex(text, r"rxe_mesh1:1 10\.1\.0\.[02] -> rxe_mesh1:1 10\.1\.0\.[02]")
            self.assertIn("without a route: exit status 1", lines, host)
            self.assertLess(moment(lab, "ended", host) - moment(lab, "asked", host), REFUSED_MS_MAX)
            self.assertRegex(text, r"hosts [ab] and [ab] share no subnet: .*10\.0\.[12]\.0/24")
        self.assertIn(VERIFIED, lab.lines("a"))

    @lab_case.at_length
    def test_a_black_hole_is_left_by_its_name(self):
        lab = self.run_lab("black_hole", self.perf(BLACK_HOLE), timeout=900,
                           env={"NCCL_IB_TIMEOUT": "14"})
        self.assertEqual(lab.code, 0)
        self.assertIn(VERIFIED, lab.lines("a"))
        for host in "ab":
            self.assertRegex("\n".join(lab.lines(host)),
                             r"path rxe_mesh1:1 10\.1\.12\.[12] -> rxe_mesh1:1 10\.1\.12\.[12] is "
                             r"lost: .*full packets of 4096 bytes \(the path's MTU\)")

    def found_often(self, topology, hosts, times=20):
        lab = self.run_lab(topology, self.perf(OFTEN, times), timeout=3600,
                           env={"NCCL_MESH_RAILS": "all"})
        share = {}
        for host in hosts:
            lines = lab.lines(host)
            self.assertEqual(lines.count("verified"), times, host)
            paths = [line for line in lines if line.startswith("sending to ")]
            self.assertEqual(len(set(paths)), 1, paths)
            share[host] = [int(line.split()[2]) for line in lines if line.startswith("cable ")]
        print("%s: %d of %d verified; bytes by cable: %s" % (topology, times, times, share))
        return share

    @lab_case.at_length
    def test_cables_in_one_subnet_are_found_every_time(self):
        for topology in ("odd_triangle", "odd_triangle_local"):
            self.found_often(topology, "abc")
        for topology in ("odd_onesubnet", "odd_crossed"):
            for first, second in self.found_often(topology, "ab").values():
                self.assertLess(abs(first - second), (first + second) / 10, topology)

    def ports_of(self, topology):
        lab = self.run_lab(topology, self.perf(CAPTURE), timeout=900)
        self.assertEqual(lab.code, 0)
        told = [line for host in "abc" for line in lab.lines(host) if line.startswith("captured:")]
        self.assertEqual(len(told), 3)
        print("%s: %s" % (topology, "; ".join(told)))
        return {port for line in told for port in re.findall(r"to port (\d+)", line)}

    @lab_case.at_length
    def test_cables_that_addresses_tell_apart_carry_no_question(self):
        self.assertEqual(self.ports_of("triangle"), {"4791"})
        self.assertGreater(len(self.ports_of("odd_triangle")), 1)


if __name__ == "__main__":
    lab_case.main()
