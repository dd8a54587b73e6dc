"""The contract suite on the rdma-core provider: what the engine may expect of a device, from the kernel's soft-RoCE. Both ends are on
one host, whose device talks to itself."""

import sys

sys.dont_write_bytecode = True
import lab_case


class Contract(lab_case.LabCase):
    def test_rdma_provider(self):
        lab = self.run_lab("pair", [lab_case.built("tests/contract/contract_test"), "--rdma"], on="a")
        self.assertEqual(lab.code, 0)
        passed = [line for line in lab.lines("a") if line.startswith("[  PASSED  ]")]
        self.assertEqual(len(passed), 1)
        self.assertGreater(int(passed[0].split()[3]), 30)
        self.assertNotIn("SKIPPED", lab.text)
        print("\n  rdma (soft-RoCE, emulated): %s" % passed[0], file=sys.stderr)


if __name__ == "__main__":
    lab_case.main()
