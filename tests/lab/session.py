"""A running lab: boots the hosts, hands each its command, passes output and exit codes on, serves
their requests."""

import os
import selectors
import shlex
import subprocess
import time

import kernel
import machine
import switch
import topology as topologies

BOOT_S_MAX = 600  # alone on a machine it takes ten to sixty
LINE_MAX = 1 << 20
EXIT_MARK = b"\0lab-exit "
# A busy machine lets a host stand still for longer than the default's 0.27 s, and rxe does not
# survive every retransmission.
ACKNOWLEDGE_TIMER = 18  # 1.1 s
EXIT_TIMEOUT, EXIT_LOST = 124, 125


class LabError(Exception):
    pass


class Request:
    """A command to be run. hosts: the hosts that run it, in the order of their ranks; all other
    hosts only are there."""

    def __init__(self, command, hosts, ranks_per_host=1):
        self.command, self.hosts, self.ranks_per_host = command, hosts, ranks_per_host
        self.inherited, self.environment = {}, {}  # overridden by ours; overriding ours
        self.timeout_s, self.memory_mib, self.shared = 300, 1024, []


class Host:
    """A host as the session sees it."""

    def __init__(self, name, rank):
        self.name, self.rank, self.machine, self.console = name, rank, None, None
        self.ready, self.exit_code, self.killed = False, None, False
        self.line, self.asked, self.heard = b"", b"", b""


def _set_up_script(topology, name, request):
    """Bash functions that make this host of the topology and run the command on it."""
    lines = ["set_up() {", "ip link set lo up", "hostname %s" % name]
    for other in topology.hosts:
        lines.append("echo %s %s >>/etc/hosts" % (topology.address(other), other))
    lines += ["rename %s %s" % (_management_mac(topology, name), topologies.MANAGEMENT),
              "ip addr add %s/24 dev %s" % (topology.address(name), topologies.MANAGEMENT),
              "ip link set %s up" % topologies.MANAGEMENT]
    if os.geteuid() != 0:
        lines.append("mount -t tmpfs none /root")  # closed to us, and so to the host
    for number, path in enumerate(request.shared):
        lines += ["mkdir -p %s" % shlex.quote(path),
                  "mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288 shared%d %s" %
                  (number, shlex.quote(path))]
    for end in topology.interfaces(name):
        lines += ["rename %s %s" % (end.mac, end.name),
                  "ip link set %s mtu %d up" % (end.name, end.mtu),
                  "rdma link add rxe_%s type rxe netdev %s" % (end.name, end.name)]
        # An IPv6 address is no GID before it has proved to be alone; on a cable of ours it is.
        lines += ["ip addr add %s dev %s%s" % (address, end.name, " nodad" if ":" in address
                                               else "") for address in end.addresses]
        lines += end.setup
    lines += ["}", "run_ranks() {", "cd %s" % shlex.quote(os.getcwd())]
    if name in request.hosts:
        lines += [_start_of_rank(topology, name, request, local)
                  for local in range(request.ranks_per_host)]
    lines += ["}"]
    return "\n".join(lines) + "\n"


def _management_mac(topology, name):
    return "52:54:00:4d:ff:%02x" % topology.hosts.index(name)


def _start_of_rank(topology, name, request, local):
    words = ["env"] + ["%s=%s" % variable for variable in
                       _environment(topology, name, request, local).items()]
    return "start_rank " + shlex.join(words + request.command)


def _environment(topology, name, request, local):
    """Returns the variables of one rank of the host; local: its number among them."""
    per_host = request.ranks_per_host
    environment = {"NCCL_IB_TIMEOUT": str(ACKNOWLEDGE_TIMER)}
    environment.update(request.inherited)
    environment.update({"LAB_HOST": name, "LAB_TOPOLOGY": topology.name,
                        "RANK": str(request.hosts.index(name) * per_host + local),
                        "WORLD_SIZE": str(len(request.hosts) * per_host),
                        "LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(per_host),
                        "MESH_RENDEZVOUS": topology.address(request.hosts[0]) + ":29500",
                        "NCCL_SOCKET_IFNAME": "=" + topologies.MANAGEMENT,
                        "MESH_TOPOLOGY": topology.name, "MESH_LAB": "1",
                        "PATH": os.path.dirname(os.path.abspath(__file__)) + "/guest:" +
                        kernel.SYSTEM_PATH})
    environment.update(request.environment)
    return environment


class Session:
    """Thread: main, and one per switch. close() leaves nothing behind, whatever happened."""

    def __init__(self, topology, request, say):
        self._topology, self._request, self._say = topology, request, say
        self._hosts = {name: Host(name, rank) for rank, name in enumerate(topology.hosts)}
        self._switches, self._files = [], []
        self._selector = selectors.DefaultSelector()

    def boot(self, kernel_image, initrd):
        plugs = self._lay_cables()
        for host in self._hosts.values():
            plan = machine.Plan(host.name, kernel_image, self._memory_file(initrd))
            host.console = self._memory_file(b"")
            plan.console, plan.shared = host.console, self._request.shared
            plan.memory_mib = self._request.memory_mib
            plan.network = plugs[host.name]
            host.machine = machine.Machine(plan)
            for port in ("lab.control", "lab.output", "lab.request"):
                self._selector.register(host.machine.ports[port], selectors.EVENT_READ,
                                        (host, port))
            text = _set_up_script(self._topology, host.name, self._request).encode()
            host.machine.ports["lab.control"].sendall(b"%d\n%s" % (len(text), text))
        self._turn_until(lambda: all(host.ready for host in self._hosts.values()), BOOT_S_MAX,
                         "boot")
        for host in self._hosts.values():
            if host.ready != "ready":
                raise LabError("host %s: %s" % (host.name, host.ready))

    def _memory_file(self, data):
        """Returns the path of a file with the data; our children may use it while we live."""
        fd = os.memfd_create("lab")
        self._files.append(fd)
        os.write(fd, data)
        return "/proc/%d/fd/%d" % (os.getpid(), fd)

    def _lay_cables(self):
        """Returns the plugs of all hosts: host name -> [(interface, mac, socket, mtu)]."""
        plugs = {name: [] for name in self._hosts}
        management = []
        for name in self._topology.hosts:
            ours, theirs = switch.wire()
            management.append(ours)
            plugs[name].append((topologies.MANAGEMENT, _management_mac(self._topology, name),
                                theirs, 1500))
        self._add_switch(management)
        for name, ends in self._topology.cables.items():
            longest = self._topology.longest.get(name)
            if len(ends) == 2 and longest is None:
                sockets = switch.wire()
            else:
                pairs = [switch.wire() for _ in ends]
                self._add_switch([ours for ours, _ in pairs], longest)
                sockets = [theirs for _, theirs in pairs]
            for end, plug in zip(ends, sockets):
                plugs[end.host].append((end.name, end.mac, plug, max(end.mtu, topologies.LAB_MTU)))
        return plugs

    def _add_switch(self, ports, longest=None):
        self._switches.append(switch.Switch(ports, longest or switch.FRAME_MAX))
        self._switches[-1].start()

    def run(self):
        """Returns the worst exit code of the hosts that were not killed on request."""
        for host in self._hosts.values():
            self._answer(host, "lab.control", "go")
        try:
            self._turn_until(lambda: all(host.exit_code is not None
                                         for host in self._hosts.values()), self._request.timeout_s,
                             "command")
        except TimeoutError:
            late = [host.name for host in self._hosts.values() if host.exit_code is None]
            self._say("no end within %d s on %s" % (self._request.timeout_s, ", ".join(late)))
            for name in late:
                self._print(self._hosts[name], self._hosts[name].line)
                self._say("last lines of the console of %s:\n%s" % (name, self.console_tail(name)))
            return EXIT_TIMEOUT
        return max((host.exit_code for host in self._hosts.values() if not host.killed), default=0)

    def _turn_until(self, reached, limit_s, what):
        end = time.monotonic() + limit_s
        while not reached():
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(what)
            for key, _ in self._selector.select(min(left, 1)):
                self._hear(*key.data)
            for host in self._hosts.values():
                if host.machine.ended() and host.exit_code is None:
                    self._lost(host)

    def _lost(self, host):
        mine = [key for key in self._selector.get_map().values() if key.data[0] is host]
        for key in mine:
            while key.fileobj.fileno() in self._selector.get_map():
                self._hear(*key.data)  # what it said last, to the end
        if host.line:
            self._print(host, host.line)
        if host.exit_code is not None:
            return
        host.ready = host.ready or "lost"
        host.exit_code = 0 if host.killed else EXIT_LOST
        if not host.killed:
            self._say("host %s is lost: %s\n%s" %
                      (host.name, host.machine.complaint(), self.console_tail(host.name)))

    def console_tail(self, name):
        with open(self._hosts[name].console, "rb") as file:
            return "\n".join(file.read().decode(errors="replace").splitlines()[-15:])

    def _hear(self, host, port):
        try:
            data = host.machine.ports[port].recv(65536)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(host.machine.ports[port])
        elif port == "lab.output":
            self._hear_output(host, data)
        elif port == "lab.control":
            host.heard += data
            if b"\n" in host.heard:
                host.ready = host.heard.split(b"\n")[0].decode(errors="replace")
        else:
            host.asked += data
            while b"\n" in host.asked:
                line, host.asked = host.asked.split(b"\n", 1)
                answer = self._serve(line.decode(errors="replace").split())
                self._answer(host, port, answer)

    @staticmethod
    def _answer(host, port, text):
        try:
            host.machine.ports[port].sendall(text.encode() + b"\n")
        except OSError:
            pass  # it is gone, which _turn_until will see

    @staticmethod
    def _print(host, line):
        print("%s: %s" % (host.name, line.decode(errors="replace")), flush=True)

    def _hear_output(self, host, data):
        host.line += data
        *lines, host.line = host.line.split(b"\n")
        if len(host.line) > LINE_MAX:
            lines, host.line = lines + [host.line], b""
        for line in lines:
            if EXIT_MARK in line:
                line, _, code = line.partition(EXIT_MARK)
                host.exit_code = int(code)
                if not line:
                    continue
            self._print(host, line)

    def _serve(self, words):
        """Serves one request of a host: (cut|restore) CABLE, kill HOST."""
        if len(words) != 2:
            return "two words, please: %s" % " ".join(words)
        action, name = words
        if action == "kill" and name in self._hosts:
            self._hosts[name].killed = True
            self._hosts[name].machine.kill()
            return "done"
        if action in ("cut", "restore") and name in self._topology.cables:
            for end in self._topology.cables[name]:
                try:
                    self._hosts[end.host].machine.plug(end.name,
                                                       "in" if action == "restore" else "out")
                except (OSError, RuntimeError) as error:
                    if not self._hosts[end.host].killed:
                        return "%s %s: host %s: %s" % (action, name, end.host, error)
            return "done"
        known = ", ".join(self._hosts), ", ".join(self._topology.cables)
        return "%s %s: no such thing here (hosts: %s; cables: %s)" % ((action, name) + known)

    def close(self):
        for host in self._hosts.values():
            if host.machine:
                host.machine.close()
        for each in self._switches:
            each.stop()
        self._selector.close()
        for fd in self._files:
            os.close(fd)
