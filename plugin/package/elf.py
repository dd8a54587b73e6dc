"""Reads with objdump what a binary asks of the system that it runs on."""

import re
import subprocess

# The versions of glibc 2.34 (AlmaLinux 9), the oldest system that a wheel with this tag may meet.
_LIMITS = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (11, 0, 0)}
# The libraries that the tag's rules let a wheel expect of every system.
_EVERYWHERE = re.compile(r"(libc|libm|libdl|libpthread|librt|libgcc_s|libstdc\+\+|ld-linux-[-\w]+)"
                         r"\.so(\.\d+)*")


def _said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed(path, objdump="objdump"):
    return re.findall(r"NEEDED\s+(\S+)", _said(objdump, "-p", path))


def machine(path, objdump="objdump"):
    found = re.search(r"file format elf64-(\S+)", _said(objdump, "-f", path)).group(1)
    return {"x86-64": "x86_64", "littleaarch64": "aarch64"}[found]


def complaints(path, bundled, objdump="objdump"):
    """Returns why a wheel with the tag manylinux_2_34 may not hold this binary."""
    found = ["%s: needs %s" % (path, name) for name in needed(path, objdump)
             if not _EVERYWHERE.fullmatch(name) and name not in bundled]
    versions = re.findall(r"\*UND\*.*?\(?(GLIBCXX|GLIBC|CXXABI|GCC)_([\d.]+)\)?",
                          _said(objdump, "-T", path))
    for family, version in sorted(set(versions)):
        if tuple(map(int, version.split("."))) > _LIMITS[family]:
            found.append("%s: needs %s_%s" % (path, family, version))
    return found
