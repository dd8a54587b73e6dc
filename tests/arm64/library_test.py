"""Looks at the plugin that was built for aarch64: its machine, what it needs, what it exports."""

import pathlib
import re
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "plugin" / "package"))
import elf

LIBRARY = TREE / "build/arm64/plugin/libnccl-net-mesh.so"
OBJDUMP = "aarch64-linux-gnu-objdump"


class Library(unittest.TestCase):
    def test_it_is_for_aarch64(self):
        self.assertEqual(elf.machine(LIBRARY, OBJDUMP), "aarch64")

    def test_it_loads_where_glibc_is_2_34(self):
        self.assertEqual(elf.complaints(LIBRARY, [], OBJDUMP), [])

    def test_it_needs_libc_and_libm_only(self):
        found = {name.split(".")[0] for name in elf.needed(LIBRARY, OBJDUMP)}
        self.assertLessEqual(found, {"libc", "libm", "ld-linux-aarch64"})

    def test_nccl_finds_every_table(self):
        told = subprocess.run([OBJDUMP, "-T", str(LIBRARY)], capture_output=True, text=True,
                              check=True).stdout
        tables = set(re.findall(r"\b(ncclNetPlugin_v\d+)$", told, flags=re.MULTILINE))
        self.assertEqual(tables, {"ncclNetPlugin_v%d" % version for version in range(5, 13)})


if __name__ == "__main__":
    unittest.main(verbosity=2)
