"""The hosts' kernel: Debian's package, unpacked beside the build and never installed, and the initial file system made from it."""

import os
import re
import shutil
import subprocess

META_PACKAGE = "linux-image-amd64"
# crc32_generic first: without it "rdma link add" answers "No such file or directory".
MODULES = ("virtio_pci", "virtio_net", "virtio_console", "9pnet_virtio", "9p", "overlay", "crc32_generic", "ib_uverbs", "rdma_ucm",
           "rdma_rxe")
BUSYBOX = "/bin/busybox"


class KernelError(Exception):
    """Something this machine lacks: the lab cannot run here."""


def _output(command, **options):
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        lines = (getattr(error, "stderr", "") or "").strip().splitlines()
        raise KernelError("%s failed: %s" % (" ".join(command[:2]), lines[-1] if lines else error)) from error


def _package():
    found = re.search(r"Depends: (linux-image-\S+)", _output(["apt-cache", "depends", META_PACKAGE]))
    if not found:
        raise KernelError("apt knows no kernel package behind %s" % META_PACKAGE)
    return found.group(1)


def _unpack(package, folder):
    """Only what a lab host needs of the 400 MB. Done in a folder of its own and moved when whole, so that no run sees half."""
    work = "%s.%d" % (folder, os.getpid())
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    try:
        _output(["apt-get", "-qq", "download", package], cwd=work)
        archive = next(entry for entry in os.listdir(work) if entry.endswith(".deb"))
        _output(["dpkg", "-x", archive, "root"], cwd=work)
        os.unlink(os.path.join(work, archive))
        version = package[len("linux-image-"):]
        _output(["depmod", "-b", os.path.join(work, "root"), version])
        os.rename(work, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


class Kernel:
    def __init__(self, folder, version):
        self.folder, self.version = folder, version
        self.image = os.path.join(folder, "root/boot/vmlinuz-" + version)
        self.modules = os.path.join(folder, "root/lib/modules", version)

    def module_files(self):
        """The files of MODULES and of what they need, in loading order."""
        needs, names = {}, {}
        with open(os.path.join(self.modules, "modules.dep"), encoding="utf-8") as file:
            for line in file:
                path, _, rest = line.partition(":")
                needs[path] = rest.split()
                names[os.path.basename(path).split(".")[0].replace("-", "_")] = path
        ordered = []
        for name in MODULES:
            if name not in names:
                raise KernelError("kernel %s has no module %s" % (self.version, name))
            path = names[name]
            ordered += [need for need in reversed(needs[path]) if need not in ordered]
            ordered += [path] if path not in ordered else []
        return ordered


def provide(cache):
    """The newest Debian kernel, downloaded once into `cache`."""
    package = _package()
    folder = os.path.join(cache, package)
    if not os.path.isdir(folder):
        os.makedirs(cache, exist_ok=True)
        _unpack(package, folder)
    return Kernel(folder, package[len("linux-image-"):])


class Archive:
    """A cpio archive in the form the kernel unpacks ("newc")."""

    def __init__(self):
        self._parts, self._count = [], 0

    def add(self, name, mode, data=b""):
        self._count += 1
        fields = (self._count, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        header = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        self._parts += [header, b"\0" * (-len(header) % 4), data, b"\0" * (-len(data) % 4)]

    def bytes(self):
        self.add("TRAILER!!!", 0)
        return b"".join(self._parts)


def _file(path):
    with open(path, "rb") as file:
        return file.read()


def initial_file_system(kernel, init):
    """busybox, the modules in loading order, and our init."""
    if not os.path.exists(BUSYBOX):
        raise KernelError("no %s (package busybox-static)" % BUSYBOX)
    archive = Archive()
    for folder in ("bin", "dev", "proc", "sys", "modules", "lower", "layer", "new"):
        archive.add(folder, 0o040755)
    archive.add("bin/busybox", 0o100755, _file(BUSYBOX))
    archive.add("init", 0o100755, _file(init))
    for number, path in enumerate(kernel.module_files()):
        data = _file(os.path.join(kernel.modules, path))
        if not path.endswith(".ko"):
            raise KernelError("kernel %s has compressed modules, which busybox's insmod does not load" % kernel.version)
        archive.add("modules/%02d-%s" % (number, os.path.basename(path)), 0o100644, data)
    return archive.bytes()
