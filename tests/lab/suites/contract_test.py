"""The contract suite on the rdma-core provider: what the engine may expect of a device, from the
kernel's soft-RoCE. Both ends are on one host, whose device talks to itself."""

import sys

sys.dont_write_bytecode = True
import lab_case


# These tests cannot run here: soft-RoCE offers no way to make a queue pair fail by itself, and a
# port that is taken down ends its queue pairs at once.
NOT_HERE = {"AShortOutageIsRetriedThrough", "AQueuePairThatFailsIsNamedAndFlushed",
            "ADestroyedQueuePairIsNamedByNoEvent"}


class Contract(lab_case.LabCase):
    def test_rdma_provider(self):
        lab = self.run_lab("pair", [lab_case.built("tests/contract/contract_test"), "--rdma"],
                           on="a")
        self.assertEqual(lab.code, 0)
        passed = [line for line in lab.lines("a") if line.startswith("[  PASSED  ]")]
        self.assertEqual(len(passed), 1)
        self.assertGreater(int(passed[0].split()[3]), 30)
        skipped = {line.split("ContractEvents.")[-1].split("/")[0] for line in lab.text.splitlines()
                   if "[  SKIPPED ] Providers" in line}
        self.assertLessEqual(skipped, NOT_HERE)
        print("\n  rdma (soft-RoCE, emulated): %s" % passed[0], file=sys.stderr)


if __name__ == "__main__":
    lab_case.main()
