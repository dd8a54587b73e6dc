"""The end-to-end suite over rdma, with the binaries that also run on the software fabric: each
topology is booted once and runs them one after the other, one parent per host. A test that needs
what a topology lacks skips itself there, with the reason."""

import shlex
import sys

sys.dont_write_bytecode = True
import lab_case

# A brief run has each suite on one topology, and of the collectives those of a triangle.
SUITES = ("transfer", "connect", "collective", "threads", "memory", "death", "lifecycle")
TIMEOUT_S = 6000  # thirty times what all suites take on a machine that has nothing else to do
SCRIPT = """
worst=0
for suite in %s; do
  filter='*'
  [ $suite != collective ] || filter='%s'
  begin=$(date +%%s)
  # A host that is still in the suite before keeps its port: each has its own.
  MESH_RENDEZVOUS=a:$((29500 + ++count)) %s/e2e_$suite --gtest_filter="$filter"
  code=$?
  echo "suite $suite: exit status $code after $(($(date +%%s) - begin)) s"
  [ $code -le $worst ] || worst=$code
  [ $code = 0 ] || lab state
done
exit $worst
"""


class EndToEnd(lab_case.LabCase):
    def suites(self, topology, names=SUITES):
        collectives = "*ThreeRanksOfATriangle" if lab_case.BRIEF else "*"
        script = SCRIPT % (" ".join(names), collectives, shlex.quote(lab_case.built("tests/e2e")))
        lab = self.run_lab(topology, script, timeout=TIMEOUT_S)
        self.tell(topology, lab)
        self.assertEqual(lab.code, 0)
        for name in names:
            self.assertTrue(any(line.startswith("suite %s: exit status 0" % name)
                                for line in lab.lines("a")), name)
        return lab

    def tell(self, topology, lab):
        """Prints what ran, and what was skipped and why."""
        lines = lab.lines("a")
        passed = sum(int(line.split()[3]) for line in lines if line.startswith("[  PASSED  ]"))
        took = [(words[1], words[6]) for words in map(str.split, lines) if words[:1] == ["suite"]]
        print("\n  %s, rdma (soft-RoCE, emulated): %d tests passed; %s" % (
            topology, passed, ", ".join("%s %s s" % each for each in took)), file=sys.stderr)
        for line, reason in zip(lines, lines[1:]):
            if line.endswith(": Skipped"):
                print("    skipped: %s" % reason, file=sys.stderr)

    def test_triangle(self):
        self.suites("triangle", SUITES[1:] if lab_case.BRIEF else SUITES)

    def test_pair2(self):
        self.suites("pair2", ("transfer",) if lab_case.BRIEF else SUITES)

    @lab_case.at_length
    def test_switched3(self):
        self.suites("switched3")


if __name__ == "__main__":
    lab_case.main()
