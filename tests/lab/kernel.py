"""The hosts' kernel and first shell: Debian's packages, unpacked beside the build and never
installed, and the initial file system made from them."""

import lzma
import os
import re
import shutil
import struct
import subprocess
import tempfile

META_PACKAGE = "linux-image-amd64"
# crc32_generic stands first: without it "rdma link add" fails with "No such file or directory".
MODULES = ("virtio_pci", "virtio_net", "virtio_console", "9pnet_virtio", "9p", "overlay",
           "crc32_generic", "ib_uverbs", "rdma_ucm",
           "rdma_rxe", "sch_netem")
SHELL_PACKAGE = "busybox-static"
# A user's own PATH often lacks the last two.
SYSTEM_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


class KernelError(Exception):
    """Something this machine lacks: the lab cannot run here."""


def _output(command, **options):
    try:
        environment = dict(os.environ, LC_ALL="C", PATH=SYSTEM_PATH)
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment,
                              **options).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        lines = (getattr(error, "stderr", "") or "").strip().splitlines()
        raise KernelError("%s failed: %s" %
                          (" ".join(command[:2]), lines[-1] if lines else error)) from error


def _file(path):
    with open(path, "rb") as file:
        return file.read()


def _package():
    found = re.search(r"Depends: (linux-image-\S+)",
                      _output(["apt-cache", "depends", META_PACKAGE]))
    if not found:
        raise KernelError("apt knows no kernel package behind %s" % META_PACKAGE)
    return found.group(1)


def _unpack(package, folder):
    """Unpacks in a folder of its own and moves that when it is whole, so that no run sees half."""
    work = tempfile.mkdtemp(prefix="unpacking-", dir=os.path.dirname(folder))
    try:
        _output(["apt-get", "-qq", "download", package, SHELL_PACKAGE], cwd=work)
        for archive in [entry for entry in os.listdir(work) if entry.endswith(".deb")]:
            _output(["dpkg", "-x", archive, "root"], cwd=work)
            os.unlink(os.path.join(work, archive))
        version = package[len("linux-image-"):]
        _output(["depmod", "-b", os.path.join(work, "root"), version])
        try:
            os.rename(work, folder)
        except OSError:
            if not os.path.isdir(folder):  # else another run was quicker
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _inner_kernel(image):
    """Returns the kernel inside a compressed image, or None if xz has not packed it. The fields are
    of the kernel's boot protocol for x86: sectors of the set-up code; offset and length of the
    packed part, counted from that code's end."""
    if len(image) < 0x250 or image[0x202:0x206] != b"HdrS":
        return None
    begin = ((image[0x1f1] or 4) + 1) * 512 + struct.unpack_from("<I", image, 0x248)[0]
    packed = image[begin:begin + struct.unpack_from("<I", image, 0x24c)[0]]
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    try:
        inner = unpacker.decompress(packed)
    except lzma.LZMAError:
        return None
    return inner if unpacker.eof and inner.startswith(b"\x7fELF") else None


def _bootable(folder, version):
    """Returns the path of the kernel, unpacked once here, for unpacking is four tenths of what a
    start costs in translated code. If it cannot be unpacked or written, it is the package's own
    file."""
    packed = os.path.join(folder, "root/boot/vmlinuz-" + version)
    plain = os.path.join(folder, "vmlinux-" + version)
    if os.path.exists(plain):
        return plain
    inner = _inner_kernel(_file(packed))
    if inner is None:
        return packed
    try:
        with tempfile.TemporaryDirectory(prefix="unpacking-", dir=folder) as work:
            whole = os.path.join(work, "vmlinux")
            with open(whole, "wb") as file:
                file.write(inner)
            os.rename(whole, plain)  # whole or not at all: another run may look
    except OSError:
        return packed
    return plain


class Kernel:
    def __init__(self, folder, version):
        self.folder, self.version = folder, version
        self.image = _bootable(folder, version)
        self.busybox = os.path.join(folder, "root/bin/busybox")
        self.modules = os.path.join(folder, "root/lib/modules", version)

    def module_files(self):
        """Returns the files of MODULES and of the modules that they need, in loading order."""
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


def _newest(cache):
    package = _package()
    if not os.path.isdir(os.path.join(cache, package)):
        _unpack(package, os.path.join(cache, package))
    return package


def provide(cache):
    """Returns the newest Debian kernel, downloaded once into `cache`; without a package source, the
    one that is there already."""
    try:
        os.makedirs(cache, exist_ok=True)
        try:
            package = _newest(cache)
        except KernelError:
            # no lists yet, or older than what the source has now
            _output(["apt-get", "-qq", "update"])
            package = _newest(cache)
    except OSError as error:
        raise KernelError("%s: %s" % (cache, error)) from error
    except KernelError as error:
        unpacked = sorted(entry for entry in os.listdir(cache)
                          if re.fullmatch(r"linux-image-\S+-amd64", entry))
        if not unpacked:
            raise error
        package = unpacked[-1]
    return Kernel(os.path.join(cache, package), package[len("linux-image-"):])


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


def initial_file_system(kernel, guest):
    """Returns busybox, the modules in loading order, and the two halves of a host's start."""
    archive = Archive()
    for folder in ("bin", "dev", "proc", "sys", "modules", "lower", "layer", "new"):
        archive.add(folder, 0o040755)
    archive.add("bin/busybox", 0o100755, _file(kernel.busybox))
    for script in ("init", "host"):
        archive.add(script, 0o100755, _file(os.path.join(guest, script)))
    for number, path in enumerate(kernel.module_files()):
        data = _file(os.path.join(kernel.modules, path))
        if path.endswith(".xz"):
            path, data = path[:-len(".xz")], lzma.decompress(data)
        archive.add("modules/%02d-%s" % (number, os.path.basename(path)), 0o100644, data)
    return archive.bytes()
