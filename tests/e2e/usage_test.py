"""Every tool with wrong inputs: one line on stderr that names the tool, the input and what is
allowed, and the exit code of the table in perf/README.md. usage_test.py BUILD [unittest's
arguments]"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
BUILD = os.path.abspath(sys.argv.pop(1))
FABRIC = os.path.join(ROOT, "perf/fabrics")
PAIR, MODEL = FABRIC + "/pair.json", FABRIC + "/model-100g.json"
SOME = "NCCL_MESH_QPS=99"
FOLDERS = {"mesh_model": "perf/model", "mesh_handoff": "perf/handoff", "mesh_settings": "src/base"}
RANK = "MESH_RENDEZVOUS=127.0.0.1:1 WORLD_SIZE=2 "

# Per tool: the wrong input, and words that its line has. NAME=VALUE is for the environment.
WRONG = {
    "mesh_perf": [
        ("", "collective is required"),
        ("all_redcue", "'all_redcue' is not one of all_gather, all_reduce"),
        ("all_reduce -d hal", "--datatype: 'hal' is not one of bfloat16, double"),
        ("all_reduce -o avg", "--op: 'avg' is not one of max, min, prod, sum"),
        ("all_reduce --memory gpu", "--memory: 'gpu' is not one of device, host"),
        ("all_reduce -n abc", "--iters: Value abc not in range 1 to 1000000"),
        ("all_reduce -n", "--iters: 1 required"),
        ("all_reduce -c -1", "--check: Value -1 not in range 0 to"),
        ("all_reduce -b 1X", "--minbytes: x unit not recognized. Allowed values: {b,"),
        ("all_reduce -b 99T", "--minbytes: Value 108851651149824 not in range 0 to"),
        ("all_reduce -b 1M -e 1K", "--maxbytes 1024 is below --minbytes 1048576"),
        ("all_reduce -e 1K", "--maxbytes 1024 is below --minbytes 33554432"),
        ("all_reduce --hosts a,q", "host 'q' is not one of the fabric file's: a, b, c"),
        ("all_reduce --hosts a", "wanted: at least 2 ranks"),
        ("all_reduce --one-way", "one way needs sendrecv between exactly 2 ranks"),
        ("all_reduce --fabric nix", "fabric file nix cannot be read"),
        ("all_reduce --via b", "--via needs latency or sendrecv"),
        ("all_reduce --net-version 99", "--net-version: Value 99 not in range 5 to"),
        ("all_reduce --foo", "not expected: --foo; --help has all options"),
        ("all_reduce --json /nix/x", "/nix/x cannot be written; wanted: a file"),
        ("all_reduce --json /", "/ cannot be written; wanted: a file"),
        ("broadcast -r 3", "root 3 is no rank; wanted: 0..2"),
        ("latency", "between exactly 2 ranks"),
        (SOME + " all_reduce", "NCCL_MESH_QPS: '99' is not usable; wanted: 1..32"),
        ("MESH_RENDEZVOUS=x all_reduce", "MESH_RENDEZVOUS: 'x' is not usable; wanted: host:port"),
        (RANK + "RANK=2 all_reduce", "RANK: '2' is not usable; wanted: 0..1"),
    ],
    "mesh_tune": [
        ("--time-limit x", "--time-limit: Value x not in range 1 to 86400"),
        ("--fabric nix", "fabric file nix cannot be read"),
        ("--model nix", "file nix cannot be read"),
        ("--model " + MODEL + " --fabric " + PAIR, "--model and --fabric exclude each other"),
        ("-o /nix/p.json", "/nix/p.json cannot be written; wanted: a file"),
        ("--json /nix/p.json", "/nix/p.json cannot be written; wanted: a file"),
        (SOME + " --quick", "NCCL_MESH_QPS: '99' is not usable; wanted: 1..32"),
        ("MESH_RENDEZVOUS=127.0.0.1:1 WORLD_SIZE=3 RANK=0", "WORLD_SIZE: '3' is not usable"),
        ("extra", "not expected: extra; --help has"),
    ],
    "mesh_scale": [
        ("--peers 0", "--peers: Value 0 not in range 1 to 1023"),
        ("--peers 16,x", "--peers: Value x not in range 1 to 1023"),
        ("--at-once 5000", "--at-once: Value 5000 not in range 1 to 1023"),
        ("--foo", "not expected: --foo; --help has"),
    ],
    "mesh_model": [
        ("-b 0", "--minbytes: Value 0 not in range 1 to"),
        ("-b 1M -e 1K", "--maxbytes 1024 is below --minbytes 1048576"),
        ("--mtu 7", "--mtu: 7 not in {256,512,1024,2048,4096}"),
        ("--outstanding 33", "--outstanding: Value 33 not in range 1 to 32"),
        ("--fabric nix", "file nix cannot be read"),
        ("--json /nix/x", "/nix/x cannot be written; wanted: a file"),
        ("--halves 200", "--halves: 200"),
        ("--stripe-bytes 129", "129 is not a multiple of 128"),
        ("--via 1 --fabric " + PAIR, "has 2 hosts and needs 3"),
        ("extra", "not expected: extra; --help has"),
    ],
    "mesh_doctor": [
        ("--patience 0", "--patience: Value 0 not in range 1 to 600"),
        ("--threshold 2", "--threshold: Value 2 not in range 0.001"),
        ("--svg /tmp/x", "--svg /tmp/x concerns the cables between hosts"),
        ("--fabric nix", "fabric file nix cannot be read"),
        ("--fabric " + PAIR + " --hosts q", "host 'q' is not one of the fabric file's: a, b"),
        ("--fabric " + PAIR + " --svg /nix/x", "/nix/x cannot be written; wanted: a file"),
        ("--fabric " + PAIR + " --write-map /nix/x", "/nix/x cannot be written; wanted: a file"),
        ("--rank 0", "without a rendezvous (--rendezvous or MESH_RENDEZVOUS: host:port"),
        ("--foo", "not expected: --foo; --help has"),
    ],
    "mesh_rails": [
        ("--net-version 4", "--net-version: Value 4 not in range 5 to"),
        ("extra", "not expected: extra; --help has"),
    ],
    "mesh_top": [
        ("", "FILE is required"),
        ("x --interval 0", "--interval: Value 0 not in range 0.1"),
        ("x --foo", "not expected: --foo; --help has"),
    ],
    "mesh_fault": [
        ("", "--fabric is required"),
        ("--fabric nix a mesh0 down", "file nix cannot be read"),
        ("--fabric " + PAIR + " a mesh0 dwon", "ACTION: dwon not in {down,up,"),
        ("--fabric " + PAIR + " a mesh9 down", "pair.json has no NIC a/mesh9"),
        ("--fabric " + PAIR + " a mesh0 up --mtu 5", "--mtu goes with mtu, and only with it"),
        ("--fabric " + PAIR + " a mesh0 peer-lost --peer q", "pair.json has no host q"),
    ],
    "mesh_settings": [
        ("--foo", "--foo is not --dump, --markdown, --nccl or --help"),
        ("--dump extra", "extra is not --dump"),
        (SOME, "NCCL_MESH_QPS: '99' is not usable; wanted: 1..32"),
    ],
    "mesh_handoff": [
        ("--rounds 0", "--rounds: Value 0 not in range 1 to 1000"),
        ("--json /nix/x", "/nix/x cannot be written; wanted: a file"),
    ],
}
# Right inputs that fail.
FAILED = {
    "mesh_top": ("/nix/x.prom", "no snapshot matches /nix/x.json"),
    "mesh_fault": ("--fabric " + PAIR + " a mesh0 down --one-end", "host a of pair does not run"),
}


class Usage(unittest.TestCase):
    def run_tool(self, tool, words):
        words = words.split()
        given = dict(word.split("=", 1) for word in words if re.match("[A-Z_]+=", word))
        command = [os.path.join(BUILD, FOLDERS.get(tool, "perf/" + tool), tool)]
        command += [word for word in words if not re.match("[A-Z_]+=", word)]
        with tempfile.TemporaryDirectory() as folder:
            return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                                  cwd=folder, env=dict(os.environ, **given))

    def expect(self, tool, words, said, code):
        with self.subTest(tool=tool, words=words):
            done = self.run_tool(tool, words)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertRegex(done.stderr, r"\A%s: [^\n]*\n\Z" % tool)
            self.assertIn(said, done.stderr)

    def test_wrong_inputs_are_one_line_and_status_two(self):
        for tool, cases in WRONG.items():
            for words, said in cases:
                self.expect(tool, words, said, 2)

    def test_a_run_that_fails_is_one_line_and_status_one(self):
        for tool, (words, said) in FAILED.items():
            self.expect(tool, words, said, 1)

    def test_help_has_the_codes_of_the_page_and_the_defaults(self):
        with open(os.path.join(ROOT, "perf/README.md"), encoding="utf-8") as stream:
            page = stream.read().split("## Exit codes")[1].split("\n## ")[0]
        rows = re.findall(r"^\| (\d) \| ([^|]+?) \|", page, re.M)
        codes = "; ".join("%s %s" % row for row in rows)
        for tool in WRONG:
            done = self.run_tool(tool, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), tool)
            self.assertIn("Exit status: %s." % codes, done.stdout, tool)
        told = self.run_tool("mesh_perf", "--help").stdout
        for default in ("SIZE=32M", "NAME=float", "NAME=sum", "[0 - 1000000]=5"):
            self.assertIn(default, told)


if __name__ == "__main__":
    unittest.main()
