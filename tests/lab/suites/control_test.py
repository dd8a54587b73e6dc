"""The control: other people's RDMA programs between the hosts of the lab. A failure here is the
kernel's or the lab's, not ours."""

import re
import sys

sys.dont_write_bytecode = True
import lab_case

# Host a serves, host b calls until somebody listens. A server that loses its caller ends, so both
# try again. The errors of earlier tries are printed, except those of calls before the server
# listened. perftest could choose the wrong device, so it is named.
SCRIPT = """
both() {
  echo "== $1"
  peer=; [ $LAB_HOST = a ] || peer=a
  : >/tmp/errors
  for try in $(seq 300); do
    if "$@" $peer 2>/tmp/error; then sort /tmp/errors | uniq -c; return; fi
    grep -v -e "Couldn't connect" -e 'Unable to open file' /tmp/error >>/tmp/errors || true
    sleep 0.1
  done
  sort /tmp/errors | uniq -c; cat /tmp/error; return 1
}
both ib_write_bw -d rxe_mesh0 -x 1 -F -s 65536 -n 300 &&
both ib_send_lat -d rxe_mesh0 -x 1 -F -s 8 -n 500 &&
both ibv_rc_pingpong -d rxe_mesh0 -g 1 -s 4096 -n 200
"""
NUMBER = r"\s+([0-9.]+)"


class Control(lab_case.LabCase):
    def test_perftest_and_pingpong(self):
        lab = self.run_lab("pair", SCRIPT)
        self.assertEqual(lab.code, 0, lab.text)
        said = "\n".join(lab.lines("b"))
        bandwidth = re.search(r"^ 65536\s+300" + NUMBER * 3, said, re.M)
        latency = re.search(r"^ 8\s+500" + NUMBER * 4, said, re.M)
        pingpong = re.search(r"200 iters in ([0-9.]+) seconds", said)
        for name, found in (("ib_write_bw", bandwidth), ("ib_send_lat", latency),
                            ("ibv_rc_pingpong", pingpong)):
            self.assertTrue(found, "no result of %s" % name)
        self.assertGreater(float(bandwidth.group(2)), 0)
        print(
            "control, rdma (soft-RoCE, emulated): ib_write_bw 64 KiB %s MB/s, ib_send_lat 8 B "
            "typical %s us, 200 ibv_rc_pingpong of 4 KiB in %s s" %
            (bandwidth.group(2), latency.group(3), pingpong.group(1)),
            file=sys.stderr)


if __name__ == "__main__":
    lab_case.main()
