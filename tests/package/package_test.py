"""Makes the packages and uses them: the Debian package is installed into an empty root and removed
again, the wheel goes into an empty virtual environment. Nothing of this machine is changed."""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "plugin" / "package"))
import elf

VERSION = re.search(r"project\(nccl-mesh VERSION ([\d.]+)",
                    (TREE / "CMakeLists.txt").read_text(encoding="utf-8")).group(1)
GLIBC_OF_UBUNTU_22 = (2, 35)


def said(*command, **options):
    told = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          check=False, **options)
    if told.returncode != 0:
        raise AssertionError("%s: exit status %d\n%s%s" % (
            " ".join(map(str, command)), told.returncode, told.stdout, told.stderr))
    return told.stdout


def sums(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.iterdir()}


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._kept = tempfile.TemporaryDirectory()
        cls.kept = pathlib.Path(cls._kept.name)
        cls.output = cls.kept / "packages"
        said(TREE / "plugin/package/make", "--output", cls.output)
        cls.deb = next(cls.output.glob("nccl-mesh_%s_*.deb" % VERSION))
        cls.wheel = next(cls.output.glob("nccl_mesh-%s-py3-none-manylinux_*.whl" % VERSION))

    @classmethod
    def tearDownClass(cls):
        cls._kept.cleanup()

    def in_root(self, root, *arguments):
        return said("dpkg", "--root=%s" % root, "--force-depends", "--force-script-chrootless",
                    "--log=%s" % (self.kept / "log"), *arguments)

    def test_the_same_source_makes_the_same_bytes(self):
        again = self.kept / "again"
        said(TREE / "plugin/package/make", "--output", again)
        self.assertEqual(sums(again), sums(self.output))

    def test_the_debian_package_comes_and_goes(self):
        root = self.kept / "root"
        for folder in ("var/lib/dpkg/info", "var/lib/dpkg/updates"):
            (root / folder).mkdir(parents=True)
        (root / "var/lib/dpkg/status").touch()
        self.in_root(root, "--install", self.deb)
        files = {str(path.relative_to(root)) for path in root.rglob("*")}
        for name in ("usr/bin/mesh_perf", "usr/share/man/man1/mesh_perf.1.gz",
                     "usr/share/doc/nccl-mesh/copyright", "usr/share/doc/nccl-mesh/changelog.gz"):
            self.assertIn(name, files)
        told = said(root / "usr/bin/mesh_perf", "all_reduce", "-b", "1K", "-e", "1K")
        self.assertIn("Out of bounds values : 0 OK", told)
        self.in_root(root, "--purge", "nccl-mesh")
        left = {path.name for path in root.rglob("*") if "mesh" in path.name}
        self.assertEqual(left, set())

    def test_the_debian_package_asks_for_no_newer_glibc_than_ubuntus(self):
        depends = said("dpkg-deb", "--field", self.deb, "Depends")
        found = re.search(r"libc6 \(>= (\d+)\.(\d+)\)", depends)
        self.assertLessEqual(tuple(map(int, found.groups())), GLIBC_OF_UBUNTU_22, depends)
        self.assertNotIn("libstdc++6", depends)

    def test_the_wheel_serves_an_empty_environment(self):
        place = self.kept / "venv"
        said("/usr/bin/python3", "-m", "venv", place)
        said(place / "bin/pip", "install", "--no-index", "--quiet",
             "--disable-pip-version-check", self.wheel)
        command = place / "bin/nccl-mesh"
        self.assertEqual(said(command, "--version"), "nccl-mesh %s\n" % VERSION)
        path = said(place / "bin/python", "-c",
                    "import nccl_mesh; print(nccl_mesh.env()['NCCL_NET_PLUGIN'])").strip()
        self.assertEqual(path, said(command, "path").strip())
        told = said(command, "perf", "all_reduce", "-b", "1K", "-e", "1K", cwd=self.kept)
        self.assertIn("Out of bounds values : 0 OK", told)
        self.assertIn("nccl-mesh " + VERSION, said(command, "rails", "--version"))
        # The command's own libraries must not count as libraries of the job.
        told = subprocess.run([command, "doctor", "--quick", "--json"], capture_output=True,
                              text=True, check=False,
                              env=dict(os.environ, NCCL_NET_PLUGIN="mesh")).stdout
        names = {finding["name"] for finding in json.loads(told)["findings"]}
        self.assertIn("plugin-missing", names, told)
        wrong = subprocess.run([command, "sing"], capture_output=True, text=True, check=False)
        self.assertEqual((wrong.returncode, wrong.stderr.count("\n")), (2, 1))

    def test_the_dashboard_asks_for_metrics_that_there_are(self):
        page = (TREE / "plugin/REFERENCE.md").read_text(encoding="utf-8")
        there = dict(re.findall(r"^\| `(mesh_\w+)` \| \w+ \| ([^|]*) \|", page, re.MULTILINE))
        board = json.loads((TREE / "plugin/package/grafana.json").read_text(encoding="utf-8"))
        for panel in board["panels"]:
            for target in panel["targets"]:
                names = [re.sub("(?<=_seconds)_bucket$", "", name)
                         for name in re.findall(r"\bmesh_\w+", target["expr"])]
                self.assertTrue(names, panel["title"])
                self.assertLessEqual(set(names), set(there), panel["title"])
                labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"])) - {"host", "process"}
                known = {label.strip() for name in names for label in there[name].split(",")}
                self.assertLessEqual(labels, known, panel["title"])

    def test_a_library_that_not_every_system_has_is_named(self):
        tool = TREE / "build/package/perf/mesh_perf/mesh_perf"
        found = elf.complaints(tool, [])
        self.assertEqual(len(found), 1, found)
        self.assertRegex(found[0], r"mesh_perf: needs libtbb\.so")


if __name__ == "__main__":
    unittest.main(verbosity=2)
