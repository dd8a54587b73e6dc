"""Wrong inputs of every tool and script, for usage_test.py: of each an unknown word, a value out of
range, a file that is missing or useless, an environment that is wrong, and words that exclude each
other, as far as it can be given them. Each is (the words, a part of the line), and the exit status
if it is not 2. NAME=VALUE among the words is for the environment, {} the folder with FILES."""

import os

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
PAIR = os.path.join(ROOT, "perf/fabrics/pair.json")
MODEL = os.path.join(ROOT, "perf/fabrics/model-100g.json")
SOME = "NCCL_MESH_QPS=99"
CONF = "NCCL_CONF_FILE={}/nccl.conf "
SLOTS = "NCCL_MESH_SLOTS: '9' is not usable; wanted: "
RANK = "MESH_RENDEZVOUS=127.0.0.1:1 WORLD_SIZE=2 "
CABLES = "--fabric " + PAIR + " "
FOO = "not expected: --foo; --help has"
UNKNOWN = "unrecognized arguments: --foo; --help has all options"
FAILED = 1

FILES = {
    "empty": "", "cut.json": '{"name": "x", ', "old.json": '{"schema": 0}', "map": "a/mesh0 b",
    "nccl.conf": "NCCL_MESH_SLOTS=9\n",  # a setting that is no knob of mesh_tune
    "zero": '{"kind": "instructions", "cases": {"one-8B": {"instructions": {"sum": 0}}}}',
    # As a build has them, so that a script looks at what comes after them.
    "perf/mesh_perf/mesh_perf": "", "perf/mesh_doctor/mesh_doctor": ""}

# The tools, by their names; FOLDERS has those that lie in a folder of another name than theirs.
FOLDERS = {"mesh_model": "perf/model", "mesh_settings": "src/base"}
TOOLS = {
    "mesh_perf": [
        ("all_reduce --foo", "not expected: --foo; --help has all options"),
        ("all_reduce -b 99T", "--minbytes: '99T' is not usable; wanted: 0..16G"),
        ("all_reduce --fabric cut.json", "cut.json: line 1, column 15: it is not JSON"),
        ("all_reduce --plugin ./nix.so", "no plugin: ./nix.so: cannot open shared object"),
        (SOME + " all_reduce", "NCCL_MESH_QPS: '99' is not usable; wanted: 1..32"),
        ("all_reduce --one-way", "one way needs sendrecv between exactly 2 ranks"),
    ],
    "mesh_tune": [
        ("extra", "not expected: extra; --help has"),
        ("--time-limit 0", "--time-limit: '0' is not usable; wanted: 1..86400"),
        ("--fabric nix", "file nix cannot be read: No such file"),
        ("-o /nix/p.json", "/nix/p.json cannot be written; wanted: a file"),
        ("--model " + MODEL + " --fabric " + PAIR, "--model and --fabric exclude each"),
    ],
    "mesh_scale": [
        ("--foo", FOO),
        ("--peers 16,1024", "--peers: '1024' is not usable; wanted: 1..1023"),
        ("--at-once 1 --at-once 2", "--at-once: At Most 1 required but received 2"),
    ],
    "mesh_model": [
        ("extra", "not expected: extra; --help has"),
        ("--mtu 7", "--mtu: '7' is not usable; wanted: 256, 512, 1024, 2048, 4096"),
        ("--paths 1,2,3,4,5,6,7,8,9", "--paths: 9 paths are not in 1..8"),
        ("--fabric empty", "empty: line 1, column 1: it is not JSON"),
        ("--relays --via 1", "--relays and --both-ways choose their middle hosts"),
    ],
    "mesh_doctor": [
        ("--foo", FOO),
        ("--threshold 2", "--threshold: '2' is not usable; wanted: 0.001..1"),
        ("--root nix", "--root nix is no folder that can be read"),
        (CABLES + "--expect map", 'line 1 is "a/mesh0 b"; wanted: HOST/PORT HOST/PORT'),
        (RANK + "RANK=2", "RANK: '2' is not usable; wanted: 0..1 (WORLD_SIZE is 2)"),
        ("--svg /tmp/x", "--svg /tmp/x concerns the cables between hosts"),
    ],
    "mesh_rails": [
        ("--foo", FOO),
        ("--net-version 4", "--net-version: '4' is not usable; wanted: 5..12"),
        ("--plugin libc.so.6", "no plugin: libc.so.6 has no symbol ncclNetPlugin_v12"),
        ("NCCL_MESH_FABRIC=soft:.", ". is not a regular file"),
        (SOME, "NCCL_MESH_QPS: '99' is not usable; wanted: 1..32"),
        (CONF, SLOTS),
    ],
    "mesh_top": [
        ("x --interval 3601", "--interval: '3601' is not usable; wanted: 0.1..3600"),
        ("", "FILE is required"),
        ("/nix/x.prom", "no snapshot matches /nix/x.json", FAILED),
        ("cut.json", "cut.json: no snapshot of nccl-mesh: line 1, column 15: it is not", FAILED),
        ("old.json", "its schema is 0; this program reads schema 1", FAILED),
    ],
    "mesh_fault": [
        (CABLES + "a mesh0 down extra", "not expected: extra; --help has"),
        (CABLES + "a mesh0 down --for-ms x", "'x' is not usable; wanted: 0..3600000"),
        ("--fabric nix a mesh0 down", "file nix cannot be read"),
        (CABLES + "a mesh9 down", "pair.json has no NIC a/mesh9"),
        (CABLES + "a mesh0 down --one-end", "host a of pair does not run", FAILED),
    ],
    "mesh_settings": [
        ("--foo", "--foo is not --dump, --version or --help"),
        ("--dump --nccl", "--nccl is not --dump"),
        (SOME, "NCCL_MESH_QPS: '99' is not usable; wanted: 1..32"),
    ],
}

HOSTS = "--hosts a,b "
# The scripts, by what their lines begin with; PATHS has the one whose name is not its path.
PATHS = {"make": "plugin/package/make"}
SCRIPTS = {
    "perf/accept": [
        (HOSTS + "--foo", UNKNOWN),
        (HOSTS + "--port 65535", "--port: 65535 is not a number of 1..65534"),
        (HOSTS + "--ssh /nix/ssh", "--ssh /nix/ssh: no such program"),
        ("--hosts a", "1 hosts are not in 2..8"),
        ("MESH_RENDEZVOUS=h:1 WORLD_SIZE=2 RANK=2", "RANK: '2' is not usable"),
    ],
    "perf/run": [
        ("--soft --foo", UNKNOWN),
        ("--soft --qps 99", "--qps: 99 is not a number of 1..32"),
        ("--soft --model", "--model: not allowed with argument --soft"),
        ("--lab nix", "--lab nix: no such topology; tests/lab/run --list has all"),
        ("--report nix", "nix: cannot be opened"),
    ],
    "make": [
        ("--foo", UNKNOWN),
        ("--preset base", "--preset base is not one of"),
        ("--output /etc/passwd", "--output /etc/passwd: File exists; wanted: a folder"),
    ],
    "perf/compare": [
        ("--foo", UNKNOWN),
        ("{}/zero", "zero: case one-8B has no sum of instructions above 0"),
        ("/nix", "/nix cannot be read as a result file: No such file"),
        ("--binary /nix", "--binary /nix: no such program"),
        ("a b --binary c", "--binary measures, and two files leave nothing to"),
    ],
    "perf/instructions/run": [
        ("--foo", UNKNOWN),
        ("nix", "there is no case nix; the cases are: one-8B"),
        ("--functions 10001", "--functions: 10001 is not a number of 0..10000"),
        ("--binary /nix", "/nix is not built; run cmake --build"),
        ("--bars one-8B", "--bars measures every case and prints a table; omit cases"),
    ],
    "tests/lab/run": [
        ("--foo", UNKNOWN),
        ("pair --memory 1 -- true", "--memory: 1 is not a number of 256..65536"),
        ("pair --on a,q -- true", "--on a,q: there is no host q (hosts: a, b)"),
        ("pair --share /nix -- true", "--share /nix is no directory"),
        ("pair", "COMMAND is missing: tests/lab/run pair -- COMMAND..."),
    ],
    "tests/run": [
        ("--foo", "'--foo' is no option"),
        ("release nix", "'nix' is no step (release, lab, asan, tsan, fuzz or arm64)"),
        ("--full --ring 9", "--ring '9' is not 1, 2 or 3"),
        ("--ring", "--ring 'nothing' is not 1, 2 or 3"),
        ("--only (", "--only '(' is no regular expression"),
    ],
    "tests/fuzz/run": [
        ("nix", "there is no target nix; the targets are handle"),
        ("--seconds 1e9", "--seconds: 1e9 is not a number of 1..1000000"),
        ("--quick engine", "engine: --quick has targets of its own"),
    ],
    "tests/sim/planted": [
        ("nix", "nix: no patch in tests/sim/bugs begins so"),
        ("--seeds 0", "--seeds: 0 is not a number of 1..1000000"),
        ("--tree {}/empty 01", "empty: File exists; wanted: a folder"),
        ("--check --seeds 5", "--check runs no seeds: --seeds and --tree are not for it"),
    ],
    "tests/under_load": [
        ("--foo -- true", UNKNOWN),
        ("--times 0 -- true", "--times: 0 is not a number of 1..100000"),
        ("-- /nix/true", "/nix/true: no such program"),
        ("--times 1", "COMMAND is missing: tests/under_load --times 10 -- COMMAND..."),
    ],
    "tests/coverage": [("--foo", "unknown option '--foo'; see tests/coverage --help")],
    "tests/fresh": [
        ("--foo", UNKNOWN),
        ("--quick --lab", "--quick boots no lab; omit --lab"),
    ],
    "tests/torch/run": [
        ("--foo", UNKNOWN),
        ("--timeout 0", "--timeout: 0 is not a number of 1..86400"),
        ("--fabric /nix.json", "--fabric /nix.json: no hosts can be read"),
        ("--fault a:nix:down", "--fault a:nix:down is not HOST:NIC:ACTION with a NIC"),
        ("--turns 1", "--turns needs --oneshot, which it compares with"),
    ],
}
