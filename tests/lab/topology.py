"""Topology files: the hosts, their interfaces, and the cables and switches that join them. A
mistake is reported in one line: file, place, value."""

import ipaddress
import json
import os
import re

# It is also an interface name: 15 characters at most, with room for a prefix.
NAME = re.compile(r"^[a-z][a-z0-9]{0,11}$")
HOSTS_MAX = 8
ENDS_MAX = 8
MTU_RANGE = (1280, 9000)  # 1280: IPv6's least
LAB_MTU = 4200  # 4096 bytes of payload and RoCE v2's headers
MANAGEMENT = "mgmt0"
MANAGEMENT_NET = "10.255.0."


class TopologyError(Exception):
    pass


class Interface:
    """One end of a cable on its host."""

    def __init__(self, host, name, cable, mac):
        self.host, self.name, self.cable, self.mac = host, name, cable, mac
        self.addresses, self.mtu, self.setup = [], LAB_MTU, []


class Topology:
    """hosts: names, by rank. cables: name -> interfaces, two for a cable, more for a switch.
    longest: cable name -> bytes of the longest frame that gets through."""

    def __init__(self, name):
        self.name, self.about, self.hosts, self.cables, self.longest = name, "", [], {}, {}

    def interfaces(self, host):
        return [end for ends in self.cables.values() for end in ends if end.host == host]

    def address(self, host):
        """Returns the host's address on the management network."""
        return MANAGEMENT_NET + str(self.hosts.index(host) + 1)


def _refuse(path, place, what):
    raise TopologyError("%s: %s: %s" % (path, place, what))


def _only(path, place, value, known):
    if not isinstance(value, dict):
        _refuse(path, place, "must be an object, not %s" % json.dumps(value))
    for key in value:
        if key not in known:
            _refuse(path, place,
                    "knows no %s (known: %s)" % (json.dumps(key), ", ".join(sorted(known))))


def _names(path, place, values, most):
    if not isinstance(values, list) or not 1 <= len(values) <= most:
        _refuse(path, place, "must be a list of 1 to %d names" % most)
    for value in values:
        if not isinstance(value, str) or not NAME.match(value):
            _refuse(path, place,
                    "%s is no name (a small letter, then up to 11 small letters and digits)" %
                    json.dumps(value))
    if len(set(values)) != len(values):
        _refuse(path, place, "names occur twice: %s" % ", ".join(values))
    return values


def _addresses(path, place, values):
    if not isinstance(values, list):
        _refuse(path, place, "addresses must be a list")
    for value in values:
        try:
            if not isinstance(value, str) or "/" not in value:
                raise ValueError("no prefix length")
            ipaddress.ip_interface(value)
        except ValueError as error:
            _refuse(path, place,
                    "%s is no address with a prefix length (%s)" % (json.dumps(value), error))
    return values


def _end(path, place, interface, text):
    _only(path, place, text, {"addresses", "mtu", "setup"})
    interface.addresses = _addresses(path, place, text.get("addresses", []))
    interface.mtu = text.get("mtu", LAB_MTU)
    if not isinstance(interface.mtu, int) or not MTU_RANGE[0] <= interface.mtu <= MTU_RANGE[1]:
        _refuse(path, place, "mtu %s is not in %d..%d" % ((json.dumps(interface.mtu),) + MTU_RANGE))
    interface.setup = text.get("setup", [])
    if not isinstance(interface.setup, list) or not all(isinstance(line, str) and "\n" not in line
                                                        for line in interface.setup):
        _refuse(path, place, "setup must be a list of command lines")


def _cable(path, topology, name, ends):
    place = "cable %s" % name
    if not isinstance(ends, dict) or not 2 <= len(ends) <= ENDS_MAX:
        _refuse(path, place, "has 2 to %d ends: {\"host/interface\": {...}, ...}" % ENDS_MAX)
    topology.cables[name] = []
    for where, text in ends.items():
        host, _, interface_name = where.partition("/")
        if host not in topology.hosts:
            _refuse(path, place,
                    "end %s: no host %s (hosts: %s)" % (where, host, ", ".join(topology.hosts)))
        _names(path, "%s, end %s" % (place, where), [interface_name], 1)
        if interface_name == MANAGEMENT or any(other.name == interface_name
                                               for other in topology.interfaces(host)):
            _refuse(path, place, "end %s: %s has that interface already" % (where, host))
        number = len(topology.cables), len(topology.cables[name])
        interface = Interface(host, interface_name, name, "52:54:00:4d:%02x:%02x" % number)
        _end(path, "%s, end %s" % (place, where), interface, text)
        topology.cables[name].append(interface)


def _longest(path, topology, limits):
    _only(path, "longest_frame", limits, set(topology.cables))
    for name, limit in limits.items():
        if not isinstance(limit, int) or not MTU_RANGE[0] <= limit <= MTU_RANGE[1]:
            _refuse(path, "longest_frame of cable %s" % name,
                    "%s is not in %d..%d" % ((json.dumps(limit),) + MTU_RANGE))
    topology.longest = limits


def load(path):
    try:
        with open(path, encoding="utf-8") as file:
            text = json.load(file)
    except (OSError, ValueError) as error:
        raise TopologyError("%s: %s" % (path, error)) from error
    _only(path, "file", text, {"about", "hosts", "cables", "longest_frame"})
    topology = Topology(os.path.splitext(os.path.basename(path))[0])
    topology.about = text.get("about", "")
    topology.hosts = _names(path, "hosts", text.get("hosts"), HOSTS_MAX)
    cables = text.get("cables", {})
    if not isinstance(cables, dict):
        _refuse(path, "cables", "must be an object")
    for name in _names(path, "cables", list(cables), 32) if cables else []:
        _cable(path, topology, name, cables[name])
    _longest(path, topology, text.get("longest_frame", {}))
    return topology


def find(name, folder):
    """Returns the topology of that name in the folder, or the one at the path of a file of one's
    own."""
    path = name if "/" in name or name.endswith(".json") else os.path.join(folder, name + ".json")
    if not os.path.exists(path):
        known = sorted(entry[:-5] for entry in os.listdir(folder) if entry.endswith(".json"))
        raise TopologyError("no topology %s (known: %s; or the path of a file)" %
                            (name, ", ".join(known)))
    return load(path)
