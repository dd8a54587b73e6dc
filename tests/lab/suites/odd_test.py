#!/usr/bin/env python3
"""Discovery on odd topologies: what mesh_rails says on each host, line by line, which rails are
then paired, and that data flows over them, or that the hosts are refused by name. Each topology is
booted once."""

import re
import shlex
import sys

sys.dont_write_bytecode = True
from lab_case import LabCase, at_length, built, main  # pylint: disable=wrong-import-position

# Ranks by the place of a host in RANKED, so that a test may leave hosts out.
SCRIPT = """
%(rails)s; echo "rails: exit status $?"
ranked=(%(ranked)s)
for rank in "${!ranked[@]}"; do
  [[ ${ranked[rank]} == "$LAB_HOST" ]] || continue
  first=$(getent hosts "${ranked[0]}" | cut -d' ' -f1)
  RANK=$rank WORLD_SIZE=${#ranked[@]} MESH_RENDEZVOUS=$first:29500 \\
    %(perf)s all_reduce --fabric rdma -b 1K -e 64K -f 64 -n 2 -w 1 -c 1 --timeout 400 -v
  echo "perf: exit status $?"
done
"""
GUID = re.compile(r"  505400fffe4d[0-9a-f]{4}$")
HEADER = re.compile(r"#  rail +address +GID +Gb/s +MTU +NUMA +PCI +guid$")
LINK = re.compile(
    r"mesh_perf: rank \d+: INFO NET/Mesh : (sending to|receiving from) host (\w+): "
    r"(.+?); per path ")
VERIFIED = "# Out of bounds values : 0 OK"


def rail(index, name, mtu, *addresses):
    """Returns a rail as mesh_rails shows it, its columns one blank apart. addresses: "10.0.12.1/24
    at 1"."""
    first, *others = [text.replace(" at ", " RoCE v2 at ") for text in addresses]
    return ["%d rxe_%s:1 %s 2.5 %d none none" % (index, name, first, mtu)] + others


class OddTest(LabCase):
    """Thread: main."""

    def boot(self, topology, ranked="ab", env=None):
        command = SCRIPT % {"rails": shlex.quote(built("perf/mesh_rails/mesh_rails")),
                            "ranked": " ".join(ranked),
                            "perf": shlex.quote(built("perf/mesh_perf/mesh_perf"))}
        return self.run_lab(topology, command, timeout=900,
                            env={"NCCL_MESH_RAILS": "all", "NCCL_MESH_RELAY": "0",
                                 **(env or {})})

    def rails_are(self, run, host, *rails, note=""):
        """Checks that the host has exactly these rails, and exactly this line about ports."""
        lines = run.lines(host)
        self.assertIn("rails: exit status 0", lines)
        title = next(n for n, line in enumerate(lines) if line.startswith("Mesh (ncclNet v"))
        shown = lines[title + 1:lines.index("rails: exit status 0")]
        self.assertRegex(shown[0], HEADER)
        shown = [" ".join(GUID.sub("", line).split()) for line in shown[1:]]
        self.assertEqual(shown,
                         [line for each in rails for line in each] + ([note] if note else []))

    def links_are(self, run, host, peer, *paths):
        """Checks that both directions to the peer go over exactly these paths: "mesh0 10.0.12.1 ->
        mesh0 10.0.12.2"."""
        links = [LINK.match(line) for line in run.lines(host)]
        found = {match[1]: sorted(match[3].split(", ")) for match in links if match
                 and match[2] == peer}
        wanted = sorted(re.sub(r"(\w+) (\S+) -> (\w+) ", r"rxe_\1:1 \2 -> rxe_\3:1 ", path)
                        for path in paths)
        self.assertEqual(found, {"sending to": wanted, "receiving from": wanted},
                         "%s to %s" % (host, peer))

    def paths_are(self, run, *paths):
        """Checks the paths between two hosts a and b, given as a sees them."""
        self.links_are(run, "a", "b", *paths)
        self.links_are(run, "b", "a",
                       *(re.sub(r"(.+) -> (.+)", r"\2 -> \1", path) for path in paths))
        self.data_flowed(run, "ab")

    def data_flowed(self, run, hosts):
        for host in hosts:
            self.assertIn("perf: exit status 0", run.lines(host), host)
        self.assertIn(VERIFIED, run.lines(hosts[0]))
        self.assertEqual(run.code, 0)

    def fails_by_name(self, run, hosts, line):
        """Checks that every host says this line at its first message, and ends with an error."""
        said = re.compile(r"mesh_perf: rank \d: WARN NET/Mesh : peer \w+: no path leads to it; "
                          r".*; " + line)
        for host in hosts:
            self.assertTrue([each for each in run.lines(host) if said.match(each)], host)
            self.assertIn("perf: exit status 1", run.lines(host))

    # ---- Prefixes.

    @at_length
    def test_slash30(self):
        run = self.boot("odd_slash30", "abc")
        self.rails_are(run, "a", rail(0, "mesh0", 4096, "10.0.0.1/30 at 1"),
                       rail(1, "mesh1", 4096, "10.0.0.10/30 at 1"))
        self.rails_are(run, "b", rail(0, "mesh0", 4096, "10.0.0.5/30 at 1"),
                       rail(1, "mesh1", 4096, "10.0.0.2/30 at 1"))
        self.rails_are(run, "c", rail(0, "mesh0", 4096, "10.0.0.9/30 at 1"),
                       rail(1, "mesh1", 4096, "10.0.0.6/30 at 1"))
        text = run.text  # A ring needs one direction between each two.
        for path in ("sending to host b: rxe_mesh0:1 10.0.0.1 -> rxe_mesh1:1 10.0.0.2;",
                     "sending to host c: rxe_mesh0:1 10.0.0.5 -> rxe_mesh1:1 10.0.0.6;",
                     "sending to host a: rxe_mesh0:1 10.0.0.9 -> rxe_mesh1:1 10.0.0.10;"):
            self.assertIn(path, text)
        self.data_flowed(run, "abc")

    def test_slash31_with_unlike_names(self):
        run = self.boot("odd_slash31")
        self.rails_are(run, "a", rail(0, "mesh0", 4096, "10.0.0.0/31 at 1"),
                       rail(1, "mesh1", 4096, "10.0.0.2/31 at 1"))
        self.rails_are(run, "b", rail(0, "roce0", 4096, "10.0.0.3/31 at 1"),
                       rail(1, "roce1", 4096, "10.0.0.1/31 at 1"))
        self.paths_are(run, "mesh0 10.0.0.0 -> roce1 10.0.0.1", "mesh1 10.0.0.2 -> roce0 10.0.0.3")

    @at_length
    def test_prefixes_that_differ(self):
        run = self.boot("odd_prefixes")
        self.rails_are(run, "a", rail(0, "mesh0", 4096, "10.0.12.1/16 at 1"))
        self.rails_are(run, "b", rail(0, "mesh0", 4096, "10.0.12.2/24 at 1"))
        self.paths_are(run, "mesh0 10.0.12.1 -> mesh0 10.0.12.2")

    @at_length
    def test_host_routes_are_enough(self):
        run = self.boot("odd_hostroute")
        self.rails_are(run, "a", rail(0, "mesh0", 4096, "10.0.0.1/32 at 1"))
        self.rails_are(run, "b", rail(0, "mesh0", 4096, "10.0.0.2/32 at 1"))
        self.paths_are(run, "mesh0 10.0.0.1 -> mesh0 10.0.0.2")

    # ---- Addresses.

    @at_length
    def test_link_local_only(self):
        run = self.boot("odd_linklocal")
        self.rails_are(run, "a", rail(0, "mesh0", 4096, "fe80::5054:ff:fe4d:100/64 at 0"))
        self.rails_are(run, "b", rail(0, "mesh0", 4096, "fe80::5054:ff:fe4d:101/64 at 0"))
        self.paths_are(run, "mesh0 fe80::5054:ff:fe4d:100 -> mesh0 fe80::5054:ff:fe4d:101")

    @at_length
    def test_zeroconf(self):
        run = self.boot("odd_zeroconf")
        self.rails_are(run, "a", rail(0, "mesh0", 4096, "169.254.33.1/16 at 1",
                                      "fe80::5054:ff:fe4d:100/64 at 0"))
        self.rails_are(run, "b", rail(0, "mesh0", 4096, "169.254.140.9/16 at 1",
                                      "fe80::5054:ff:fe4d:101/64 at 0"))
        self.paths_are(run, "mesh0 169.254.33.1 -> mesh0 169.254.140.9")

    def test_ports_that_lead_elsewhere(self):
        run = self.boot("odd_strays")
        self.rails_are(run, "a", rail(0, "bare0", 4096, "fe80::5054:ff:fe4d:100/64 at 0"),
                       rail(1, "mesh0", 4096, "10.0.12.1/24 at 1"),
                       rail(2, "stor0", 4096, "192.168.7.1/24 at 1"))
        self.rails_are(run, "b", rail(0, "bare0", 4096, "fe80::5054:ff:fe4d:200/64 at 0"),
                       rail(1, "mesh0", 4096, "10.0.12.2/24 at 1"))
        self.paths_are(run, "mesh0 10.0.12.1 -> mesh0 10.0.12.2")

    def test_ipv6_only(self):
        run = self.boot("odd_ipv6")
        self.rails_are(run, "a", rail(0, "mesh0", 4096, "fd12::1/64 at 1"),
                       rail(1, "mesh1", 4096, "fd13::/127 at 1"))
        self.rails_are(run, "b", rail(0, "mesh0", 4096, "fd13::1/127 at 1"),
                       rail(1, "mesh1", 4096, "fd12::2/64 at 1"))
        self.paths_are(run, "mesh0 fd12::1 -> mesh1 fd12::2", "mesh1 fd13:: -> mesh0 fd13::1")

    # ---- GID tables.

    def test_gids_in_unusual_order(self):
        run = self.boot("odd_gids")
        self.rails_are(run, "a", rail(0, "mesh0", 4096, "10.0.12.1/24 at 2"))
        self.rails_are(run, "b", rail(0, "mesh0", 4096, "10.0.12.2/24 at 5", "fd07::1/64 at 1",
                                      "fd07::3/64 at 3", "fd07::4/64 at 4"))
        self.paths_are(run, "mesh0 10.0.12.1 -> mesh0 10.0.12.2")

    def test_second_address_is_the_common_one(self):
        run = self.boot("odd_second")
        self.rails_are(run, "a",
                       rail(0, "mesh0", 4096, "192.168.50.1/24 at 1", "10.0.12.1/24 at 2"),
                       rail(1, "mesh1", 4096, "192.168.51.1/24 at 1", "fd12::1/64 at 2"))
        self.rails_are(run, "b", rail(0, "mesh0", 4096, "192.168.60.2/24 at 1", "10.0.12.2/24 at 3",
                                      "fd60::2/64 at 2"),
                       rail(1, "mesh1", 4096, "fd12::2/64 at 1"))
        self.paths_are(run, "mesh0 10.0.12.1 -> mesh0 10.0.12.2", "mesh1 fd12::1 -> mesh1 fd12::2")

    # ---- Ports.

    @at_length
    def test_mtu_differs(self):
        run = self.boot("odd_mtu")
        for host, number in (("a", 1), ("b", 2)):
            self.rails_are(run, host, rail(0, "mesh0", 4096, "10.0.12.%d/24 at 1" % number),
                           rail(1, "mesh1", 1024, "10.1.12.%d/24 at 1" % number),
                           rail(2, "mesh2", 4096 if host == "a" else 1024,
                                "10.2.12.%d/24 at 1" % number))
        self.paths_are(run,
                       *("mesh%d 10.%d.12.1 -> mesh%d 10.%d.12.2" % (n, n, n, n) for n in range(3)))

    def test_netdev_down(self):
        run = self.boot("odd_down")
        self.rails_are(run, "a", rail(0, "mesh0", 4096, "10.0.12.1/24 at 1"),
                       rail(1, "mesh1", 4096, "10.1.12.1/24 at 1"))
        self.rails_are(run, "b", rail(0, "mesh1", 4096, "10.1.12.2/24 at 1"),
                       note="rail 1 rxe_mesh0:1: 10.0.12.2/24, its port is down; "
                            "it takes its place when it comes up")
        self.assertIn(
            "mesh_perf: rank 0: INFO NET/Mesh : peer b: path rxe_mesh0:1 10.0.12.1 -> rxe_mesh0:1 "
            "10.0.12.2 has a port that is down, and joins when it comes up; 1 of 2 paths carry on",
            run.lines("a"))
        self.paths_are(run, "mesh0 10.0.12.1 -> mesh0 10.0.12.2",
                       "mesh1 10.1.12.1 -> mesh1 10.1.12.2")

    # ---- Cables.

    def two_cables_in_one_subnet(self, run):
        note = (
            "rails rxe_mesh0:1, rxe_mesh1:1 are in one subnet 10.0.12.0/24: datagrams tell which "
            "cable leads where; without answers, ports meet in this order")
        for host, first, second in (("a", 1, 3), ("b", 2, 4)):
            self.rails_are(run, host, rail(0, "mesh0", 4096, "10.0.12.%d/24 at 1" % first),
                           rail(1, "mesh1", 4096, "10.0.12.%d/24 at 1" % second), note=note)

    @at_length
    def test_two_cables_in_one_subnet(self):
        run = self.boot("odd_onesubnet")
        self.two_cables_in_one_subnet(run)
        self.paths_are(run, "mesh0 10.0.12.1 -> mesh0 10.0.12.2",
                       "mesh1 10.0.12.3 -> mesh1 10.0.12.4")

    def test_two_cables_in_one_subnet_crossed(self):
        """Both hosts answer for each of their addresses on each port, as Linux does by default, and
        datagrams tell the cables."""
        run = self.boot("odd_crossed")
        self.two_cables_in_one_subnet(run)
        self.paths_are(run, "mesh0 10.0.12.1 -> mesh1 10.0.12.4",
                       "mesh1 10.0.12.3 -> mesh0 10.0.12.2")
        for line in ("peer a: our rxe_mesh0:1 is cabled to its rxe_mesh1:1, our rxe_mesh1:1 is "
                     "cabled to its rxe_mesh0:1",
                     "peer a: as datagrams tell: 10.0.12.0/24 is on several cables"):
            self.assertTrue([each for each in run.lines("b") if each.endswith(line)], line)

    def triangle(self, run, net):
        text = run.text  # A ring needs one direction between each two.
        for path in ("sending to host b: rxe_mesh0:1 %s.1 -> rxe_mesh1:1 %s.4;",
                     "sending to host c: rxe_mesh0:1 %s.3 -> rxe_mesh1:1 %s.6;",
                     "sending to host a: rxe_mesh0:1 %s.5 -> rxe_mesh1:1 %s.2;"):
            self.assertIn(path % (net, net), text)
        self.data_flowed(run, "abc")

    def test_a_triangle_in_one_subnet(self):
        self.triangle(self.boot("odd_triangle", "abc"), "10.0.12")

    @at_length
    def test_a_triangle_with_link_local_addresses(self):
        self.triangle(self.boot("odd_triangle_local", "abc"), "169.254.7")

    @at_length
    def test_a_message_between_the_ends_of_a_line_fails_by_name(self):
        run = self.boot("line3", "ac")
        self.rails_are(run, "a", rail(0, "mesh0", 4096, "10.0.12.1/24 at 1"))
        self.rails_are(run, "c", rail(0, "mesh0", 4096, "10.0.23.3/24 at 1"))
        self.fails_by_name(run, "ac", r"hosts [ac] and [ac] share no subnet: the first has "
                           r"10\.0\.(12|23)\.0/24; the second 10\.0\.(12|23)\.0/24")


if __name__ == "__main__":
    main()
