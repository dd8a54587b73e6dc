"""One lab host: a QEMU process, its serial ports for the runner, and the plugs of its cables."""

import ctypes
import json
import os
import signal
import socket
import subprocess

QEMU = "qemu-system-x86_64"
PORTS = ("lab.control", "lab.output", "lab.request")
PR_SET_PDEATHSIG = 1
MONITOR_S_MAX = 60
# no_timer_check: on a busy machine the check of the timer's interrupt finds too few and stops the
# start.
KERNEL_WORDS = ("console=ttyS0 quiet panic=-1 mitigations=off no_timer_check nokaslr "
                "random.trust_cpu=on")
# Features that are slow in translated code: "rep movsb" and "rep stosb" go byte by byte there, and
# a kernel and a libc that see ERMS copy and clear everything by them; SMAP changes the mode around
# every copy to and from a user's memory.
PROCESSOR = "max,erms=off,fsrm=off,smap=off"
_prctl = ctypes.CDLL(None).prctl


def _die_with_runner():
    os.setpgid(0, 0)  # the terminal's Ctrl-C is the runner's to handle
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Plan:
    """The parts of a host: files, memory, and a list of (interface name, mac, socket, mtu)."""

    def __init__(self, name, kernel, initrd):
        self.name, self.kernel, self.initrd = name, kernel, initrd
        self.memory_mib, self.network, self.shared, self.console = 1024, [], [], os.devnull


def _devices(plan, fds):
    command = ["-device", "virtio-serial-pci"]
    for number, port in enumerate(PORTS):
        command += ["-chardev", "socket,id=port%d,fd=%d" % (number, fds[port]),
                    "-device", "virtserialport,chardev=port%d,name=%s" % (number, port)]
    command += ["-chardev", "socket,id=monitor,fd=%d" % fds["monitor"], "-mon",
                "chardev=monitor,mode=control"]
    for name, mac, end, mtu in plan.network:
        command += ["-netdev", "dgram,id=%s,local.type=fd,local.str=%d" % (name, end.fileno()),
                    "-device",
                    "virtio-net-pci,netdev=%s,mac=%s,host_mtu=%d,mq=off" % (name, mac, mtu)]
    for number, path in enumerate(plan.shared):
        command += ["-virtfs",
                    "local,path=%s,mount_tag=shared%d,security_model=none,multidevs=remap" %
                    (path, number)]
    return command


def _command(plan, fds):
    # One thread of translated code per host: with two a guest's own locks wait for the scheduler
    # here.
    command = [QEMU, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-M",
               "q35,usb=off", "-cpu", PROCESSOR,
               "-accel", "tcg,thread=multi", "-smp", "1", "-m", str(plan.memory_mib), "-kernel",
               plan.kernel, "-initrd", plan.initrd,
               "-append", KERNEL_WORDS,
               "-serial", "file:" + plan.console,
               "-virtfs",
               "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap"]
    return command + _devices(plan, fds)


class Machine:
    """Thread: one owner. The sockets in `ports` are ours to read and write."""

    def __init__(self, plan):
        self.name, self.ports, ends = plan.name, {}, {}
        for port in PORTS + ("monitor",):
            self.ports[port], ends[port] = socket.socketpair()
        fds = {port: end.fileno() for port, end in ends.items()}
        passed = list(fds.values()) + [end.fileno() for _, _, end, _ in plan.network]
        self.process = subprocess.Popen(_command(plan, fds), pass_fds=passed,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, preexec_fn=_die_with_runner)
        for end in list(ends.values()) + [end for _, _, end, _ in plan.network]:
            end.close()
        self.ports["monitor"].settimeout(MONITOR_S_MAX)
        self._monitor = self.ports["monitor"].makefile("rw", encoding="utf-8")
        self._asked = False

    def _ask(self, command, **arguments):
        """Sends one request to QEMU's monitor and skips the events that come between."""
        self._monitor.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._monitor.flush()
        for line in self._monitor:
            answer = json.loads(line)
            if "return" in answer:
                return
            if "error" in answer:
                raise RuntimeError("%s: %s: %s" % (self.name, command, answer["error"].get("desc")))
        raise RuntimeError("%s: the machine is gone" % self.name)

    def plug(self, interface, state):
        """Plugs a cable "in" or "out" (state). The guest sees its carrier come and go."""
        if not self._asked:
            self._ask("qmp_capabilities")
            self._asked = True
        self._ask("set_link", name=interface, up=state == "in")

    def ended(self):
        return self.process.poll() is not None

    def complaint(self):
        """Returns what QEMU said on its way out. Called only once it has ended."""
        text = self.process.stderr.read().decode(errors="replace").strip()
        return text.splitlines()[-1] if text else "exit status %s" % self.process.returncode

    def kill(self):
        if not self.ended():
            self.process.kill()
        self.process.wait()

    def close(self):
        self.kill()
        self.process.stderr.close()
        self._monitor.close()
        for port in self.ports.values():
            port.close()
