"""The lab itself: exit codes, output, limits, cables, and that nothing stays behind however a run
ends."""

import lzma
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
import lab_case

sys.path.insert(0, os.path.join(lab_case.ROOT, "tests/lab"))
import kernel


def processes_with(word):
    """Returns the numbers of the QEMU processes whose command line has the word."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open("/proc/%s/cmdline" % entry, "rb") as file:
                command = file.read()
        except OSError:
            continue
        if command.startswith(b"qemu-system") and word.encode() in command:
            found.append(int(entry))
    return found


class Started:
    """A run of the lab that goes on while the test looks at it."""

    def __init__(self, *command):
        self.process = subprocess.Popen([lab_case.LAB_RUN, *command], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)

    def wait_for(self, text):
        for line in self.process.stdout:
            if text in line:
                return
        raise AssertionError("the lab never said %r" % text)

    def machines(self):
        """Returns our own: their initial file system is a memory file of the runner's."""
        return processes_with("/proc/%d/fd/" % self.process.pid)

    def end(self):
        self.process.communicate(timeout=300)
        return self.process.returncode


def wait_until_gone(numbers):
    end = time.monotonic() + 200
    while any(os.path.exists("/proc/%d" % number) for number in numbers):
        if time.monotonic() > end:
            raise AssertionError("machines outlive their lab: %s" % numbers)
        time.sleep(0.05)


class Runner(lab_case.LabCase):
    def test_worst_exit_code_and_names_before_lines(self):
        """The second rank of each host speaks first."""
        script = """
        [ $LOCAL_RANK = 1 ] || until [ -e /run/said ]; do sleep 0.1; done
        echo I am rank $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, at $MESH_RENDEZVOUS
        touch /run/said; [ $LOCAL_RANK = 1 ] || printf end; exit $((RANK * 3))"""
        lab = self.run_lab("pair", ["sh", "-c", script], ranks_per_host=2)
        self.assertEqual(lab.code, 9, lab.text)
        for host, first in (("a", 0), ("b", 2)):
            self.assertEqual(lab.lines(host), [
                "I am rank %d of 4, 1 of 2, at 10.255.0.1:29500" % (first + 1),
                "I am rank %d of 4, 0 of 2, at 10.255.0.1:29500" % first, "end"])

    def test_cables_and_hosts_obey_the_command(self):
        script = """
        state() { cat /sys/class/infiniband/rxe_mesh0/ports/1/state; }
        changes_to() {
          for i in $(seq 2000); do
            case "$(state)" in *$1) echo is $1; return;; esac
            sleep 0.05
          done
          echo stays $(state)
        }
        state; lab cut ab; changes_to DOWN; lab restore ab; changes_to ACTIVE
        lab cut nothing; echo code $?; lab kill b; echo code $?
        lab state | grep -c '^state: net/mesh0/statistics/tx_packets [1-9]'"""
        lab = self.run_lab("pair", ["sh", "-c", script], on="a")
        self.assertEqual(lab.code, 0, lab.text)
        refusal = "lab: cut nothing: no such thing here (hosts: a, b; cables: ab)"
        self.assertEqual(lab.lines("a"),
                         ["4: ACTIVE", "is DOWN", "is ACTIVE", refusal, "code 1", "code 0", "1"])

    @lab_case.at_length
    def test_out_of_time(self):
        begin = time.monotonic()
        lab = self.run_lab("pair", ["sleep", "10000"], timeout=2)
        self.assertEqual(lab.code, 124, lab.text)
        self.assertIn("lab: no end within 2 s on a, b", lab.text)
        self.assertLess(time.monotonic() - begin, lab_case.BOOT_S_MAX)

    @lab_case.at_length
    def test_a_host_that_dies_is_named(self):
        switch_off = "echo 1 >/proc/sys/kernel/sysrq; echo o >/proc/sysrq-trigger"
        lab = self.run_lab("pair",
                           ["sh", "-c", "[ $LAB_HOST = a ] || { %s; }; sleep 3" % switch_off])
        self.assertEqual(lab.code, 125, lab.text)
        self.assertIn("lab: host b is lost", lab.text)

    @lab_case.at_length
    def test_interrupted_it_takes_its_machines_down(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
            lab = Started("pair", "--", "sh", "-c", "echo running; sleep 10000")
            lab.wait_for("running")
            machines = lab.machines()
            self.assertEqual(len(machines), 2)
            lab.process.send_signal(number)
            self.assertEqual(lab.end(), code)
            wait_until_gone(machines)


class Mistakes(unittest.TestCase):
    def test_topology_files(self):
        cables = '"cables": {"ab": {"a/m0": {%s}, "b/m0": {}}}}'
        for text, says in (
                ("{", "Expecting"),
                ('{"hosts": ["a", "a"]}', "names occur twice: a, a"),
                ('{"hosts": ["a"], "wires": {}}', 'knows no "wires"'),
                ('{"hosts": ["a"], ' + cables % "", "no host b (hosts: a)"),
                ('{"hosts": ["a", "b"], ' + cables % '"addresses": ["10.0.0.1"]',
                 "no prefix length"),
                ('{"hosts": ["a", "b"], ' + cables % '"mtu": 100', "mtu 100 is not in 1280..9000")):
            with self.subTest(says), tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                file.write(text)
                file.flush()
                done = subprocess.run([lab_case.LAB_RUN, file.name, "--", "true"],
                                      capture_output=True, text=True, timeout=600)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(file.name, done.stderr)
                self.assertIn(says, done.stderr)


def kernel_image(packed):
    """Returns an image as the package has it: two sectors of set-up code, then the packed part."""
    head = bytearray(1024)
    head[0x1f1] = 1
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", head, 0x248, 8, len(packed))
    return bytes(head) + b"unpacker" + packed


class KernelImage(unittest.TestCase):
    """The kernel is unpacked before hosts start it, if that can be done."""

    ELF = b"\x7fELF and what follows"

    def bootable(self, image):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.makedirs(os.path.join(folder.name, "root/boot"))
        with open(os.path.join(folder.name, "root/boot/vmlinuz-1"), "wb") as file:
            file.write(image)
        path = kernel.Kernel(folder.name, "1").image
        self.assertEqual(kernel.Kernel(folder.name, "1").image, path, "the second time")
        with open(path, "rb") as file:
            return os.path.relpath(path, folder.name), file.read()

    def test_packed_by_xz_it_is_unpacked_once_and_anything_else_is_started_as_it_is(self):
        whole = kernel_image(lzma.compress(self.ELF) + b"size")
        self.assertEqual(self.bootable(whole), ("vmlinux-1", self.ELF))
        for image in (b"", whole[:-20], kernel_image(b"packed by another"),
                      kernel_image(lzma.compress(b"no kernel")), whole.replace(b"HdrS", b"Hdr?")):
            with self.subTest(image[-30:]):
                self.assertEqual(self.bootable(image), ("root/boot/vmlinuz-1", image))


class Absence(unittest.TestCase):
    """A machine that has no kernel and cannot get one."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for tool in ("apt-get", "apt-cache"):
            path = os.path.join(folder.name, tool)
            with open(path, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\necho no package source >&2\nexit 100\n")
            os.chmod(path, 0o755)
        self.environment = dict(os.environ, PATH=folder.name + ":" + os.environ["PATH"],
                                MESH_LAB_CACHE=os.path.join(folder.name, "cache"))

    def ends(self, code, says, *command):
        end = subprocess.run([os.path.join(lab_case.ROOT, command[0]), *command[1:]],
                             env=self.environment, capture_output=True,
                             text=True, timeout=600, stdin=subprocess.DEVNULL)
        self.assertEqual(end.returncode, code, end.stdout + end.stderr)
        self.assertIn(says, end.stdout + end.stderr)

    def test_the_lab_says_what_it_lacks(self):
        self.ends(77, "lab: cannot run here: apt-get -qq failed: no package source",
                  "tests/lab/run", "pair", "--", "true")

    def test_only_no_lab_makes_that_good(self):
        missing = subprocess.run(
            ["bash", "-c", "source tests/packages.sh; "
             "mesh_missing_packages \"${MESH_PACKAGES[@]}\" \"${MESH_TEST_PACKAGES[@]}\""],
            cwd=lab_case.ROOT, capture_output=True, text=True, check=True).stdout.split()
        if missing:
            self.skipTest("tests/run would install %s first" % " ".join(missing))
        self.ends(1, "lab: SKIPPED, it is not available here", "tests/run", "lab")
        self.ends(0, "lab: skipped by --no-lab", "tests/run", "lab", "--no-lab")


if __name__ == "__main__":
    lab_case.main()
