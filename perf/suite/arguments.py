"""The command line of a sweep."""

import os

import plan
from one_line import Parser
from values import names, number, numbers, pauses, rate, size

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAUSES_US = [0, 100, 1000, 10000]  # what --pauses is without --quick
SUMMARY = """Sweeps message size x QPS x SIGNAL_INTERVAL x INLINE x channels, shows its progress,
and writes one result file (JSON) and one report (HTML). Separate the values of a list by commas. In
a list of settings, "default" is the plugin's own choice."""
EPILOG = """The report needs only a browser. Figures of the model, of the software fabric and of
real verbs never share a report. Exit status: 0 success; 1 a run failed; 2 wrong usage; 3 wrong
data; 77 the place is not available here."""

# For each place: smallest and largest size, factor; iterations by operation. Latency has perftest's
# number of them; bandwidth has enough to be quiet.
DEFAULTS = {
    "soft": ((8, 4 << 20, 4), {"latency": 2000, "bandwidth": 500, "sendrecv": 300, "alltoall": 100,
                               "all_reduce": 50}),
    "model": ((8, 1 << 20, 4), {"model": 0}),
    "lab": ((8, 256 << 10, 4),
            {"latency": 200, "bandwidth": 40, "sendrecv": 30, "alltoall": 10, "all_reduce": 5}),
    "hosts": ((8, 16 << 20, 4), {"latency": 1000, "bandwidth": 500, "sendrecv": 300,
                                 "alltoall": 100, "all_reduce": 50}),
}
QUICK = {
    "soft": ((8, 1 << 20, 8),
             {"latency": 300, "bandwidth": 100, "sendrecv": 60, "alltoall": 30, "all_reduce": 20}),
    "model": ((8, 1 << 20, 16), {"model": 0}),
    "lab": ((8, 64 << 10, 16),
            {"latency": 50, "bandwidth": 10, "sendrecv": 10, "alltoall": 5, "all_reduce": 2}),
    "hosts": ((8, 1 << 20, 16),
              {"latency": 200, "bandwidth": 100, "sendrecv": 60, "alltoall": 30, "all_reduce": 20}),
}


# Least milliseconds for one size. On soft-RoCE the iterations above take longer anyhow.
MIN_TIME_MS = {"soft": 100, "model": 0, "lab": 0, "hosts": 100}
QUICK_MIN_TIME_MS = {"soft": 10, "model": 0, "lab": 0, "hosts": 10}


def _add_places(parser):
    place = parser.add_argument_group("where").add_mutually_exclusive_group()
    place.add_argument("--soft", action="store_true",
                       help="software fabric, real time, on this host (the default)")
    place.add_argument("--model", action="store_true",
                       help="the model: computed links and NICs, no clock, equal on any machine")
    place.add_argument("--lab", nargs="?", const="pair", metavar="TOPOLOGY",
                       help="soft-RoCE between small virtual machines (default pair)")
    place.add_argument("--hosts", type=lambda text: text.split(","), metavar="A,B",
                       help="real hosts, by ssh; each has this tree at this path")
    place.add_argument("--compare", nargs=2, metavar=("A", "B"),
                       help="compare two result files; nothing is run")
    place.add_argument("--report", metavar="FILE",
                       help="write the report of a result file again; nothing is run")


def _add_sweep(parser):
    sweep = parser.add_argument_group("what")
    sweep.add_argument("-b", "--minbytes", type=size, metavar="SIZE", help="smallest size")
    sweep.add_argument("-e", "--maxbytes", type=size, metavar="SIZE", help="largest size")
    sweep.add_argument("-f", "--stepfactor", type=number(2, 1024), metavar="N",
                       help="factor between one size and the next")
    sweep.add_argument("-n", "--iters", type=number(1, 1000000), metavar="N",
                       help="timed iterations per size (default: by operation and time)")
    sweep.add_argument("--operations", type=names(plan.OPERATIONS), metavar="LIST",
                       help="of %s (default latency,bandwidth,all_reduce; bandwidth is one way)" %
                       ", ".join(plan.OPERATIONS))
    sweep.add_argument("--qps", type=numbers(1, 32), metavar="LIST",
                       help="queue pairs per path (default 1,4; --quick: default)")
    sweep.add_argument("--signal-interval", type=numbers(1, 64), default=[None], metavar="LIST",
                       help="NCCL_MESH_SIGNAL_INTERVAL, 1..64")
    sweep.add_argument("--inline", type=numbers(0, 512), default=[None], metavar="LIST",
                       help="NCCL_MESH_INLINE in bytes, 0..512")
    sweep.add_argument("--channels", type=numbers(1, 64), default=[1], metavar="LIST",
                       help="connections per pair (default 1)")
    sweep.add_argument("--outstanding", type=numbers(1, 32), default=[8], metavar="LIST",
                       help="messages in flight per channel (default 8)")
    sweep.add_argument("--via", type=numbers(0, plan.VIA_MAX), default=[0], metavar="LIST",
                       help="hosts in between that carry the messages (--model; --soft needs a "
                       "fabric of so many hosts in a row); default 0")
    sweep.add_argument("--pauses", type=pauses, metavar="LIST",
                       help="milliseconds between two messages of latency; pauses above 0 are for "
                       "the smallest size (default 0,0.1,1,10; --quick: 0)")
    sweep.add_argument("--quick", action="store_true",
                       help="fewer sizes and iterations: about a minute")
    sweep.add_argument(
        "--perftest",
        action="store_true",
        help="run ib_write_bw, ib_write_lat and ib_send_lat too (--lab, --hosts)")
    sweep.add_argument("extra", nargs="*", metavar="-- ARGUMENTS",
                       help="further arguments, passed to mesh_perf or mesh_model unchanged")


def parser_of():
    parser = Parser(prog="perf/run", description=SUMMARY, epilog=EPILOG)
    _add_places(parser)
    _add_sweep(parser)
    more = parser.add_argument_group("how")
    more.add_argument("--out", metavar="PREFIX",
                      help="write PREFIX.json and PREFIX.html (default build/perf/PLACE-TIME)")
    more.add_argument("--note", action="append", default=[], metavar="TEXT",
                      help="text for every title, such as \"taken on a busy machine\"")
    more.add_argument("--ceiling", type=rate, metavar="GB/S",
                      help="the links' goodput, if the fabric does not tell it")
    more.add_argument("--fabric", metavar="FILE",
                      help="fabric file of --soft and --model (default perf/fabrics/triangle.json)")
    more.add_argument("--timeout", type=number(1, 86400), default=120, metavar="S",
                      help="seconds for one run (default %(default)s)")
    more.add_argument("--dry-run", action="store_true", help="print the commands and run nothing")
    more.add_argument("--ssh", default="ssh -o BatchMode=yes", metavar="COMMAND",
                      help="command by which --hosts reaches a host (default %(default)s)")
    more.add_argument("--port", type=number(1, 65535), default=29500,
                      help="port of rank 0, for --hosts (default %(default)s)")
    more.add_argument("--perftest-device", metavar="DEVICE",
                      help="RDMA device for --perftest, on both hosts (--lab: rxe_mesh0)")
    more.add_argument("--build", default=os.environ.get("MESH_BUILD"), metavar="DIR",
                      help="build tree (default build/release)")
    return parser


def place_of(options):
    chosen = (("model", options.model), ("lab", options.lab), ("hosts", options.hosts))
    return next((name for name, wanted in chosen if wanted), "soft")


def _check(parser, options, place):
    if options.hosts and (len(options.hosts) < 2 or not all(options.hosts)):
        parser.error("--hosts %s: name at least two hosts, with commas" % ",".join(options.hosts))
    topology = "tests/lab/topologies/%s.json" % options.lab
    if options.lab and not any(map(os.path.isfile, (options.lab, os.path.join(ROOT, topology)))):
        parser.error("--lab %s: no such topology; tests/lab/run --list has all" % options.lab)
    if options.perftest and place not in ("lab", "hosts"):
        parser.error("--perftest needs real verbs: --lab or --hosts")
    if options.perftest and place == "hosts" and not options.perftest_device:
        parser.error("--perftest on real hosts needs --perftest-device")
    if options.fabric and place not in ("soft", "model"):
        parser.error("--fabric %s needs --soft or --model" % options.fabric)
    if options.fabric and not os.path.isfile(options.fabric):
        parser.error("--fabric %s: no such file" % options.fabric)
    if options.operations and place == "model":
        parser.error("--operations: the model always measures bandwidth and latency")
    if None in options.channels or None in options.outstanding or None in options.via:
        parser.error("--channels, --outstanding and --via are numbers, not \"default\"")
    if any(options.via) and place not in ("soft", "model"):
        parser.error("--via needs --soft or --model")
    if any(options.via) and place == "soft" and not options.fabric:
        parser.error("--via needs a --fabric of hosts in a row, such as perf/fabrics/line4.json")


def lists_of(parser, options):
    """Returns the sweep that the command line asks for."""
    place = place_of(options)
    _check(parser, options, place)
    (low, high, factor), iterations = (QUICK if options.quick else DEFAULTS)[place]
    sizes = plan.Sizes(options.minbytes or low, options.maxbytes
                       or max(high, options.minbytes or 0), options.stepfactor or factor)
    if sizes.high < sizes.low:
        parser.error("--maxbytes %d is below --minbytes %d" % (sizes.high, sizes.low))
    if len(sizes.all()) > 64:
        parser.error("--stepfactor %d gives %d sizes, at most 64" %
                     (sizes.factor, len(sizes.all())))
    operations = ["model"] if place == "model" else options.operations or ["latency", "bandwidth",
                                                                           "all_reduce"]
    if options.perftest:
        operations = operations + list(plan.PERFTEST)
        like = {name: "latency" if name.endswith("lat") else "bandwidth" for name in plan.PERFTEST}
        iterations = dict(iterations, **{name: iterations[one] for name, one in like.items()})
    min_time = (QUICK_MIN_TIME_MS if options.quick else MIN_TIME_MS)[place]
    if options.iters:
        min_time = 0
        iterations = {operation: options.iters for operation in iterations}
    qps = options.qps or ([None] if options.quick else [1, 4])
    pause_us = options.pauses or ([0] if options.quick else PAUSES_US)
    return plan.Lists(operations, sizes, qps, options.signal_interval, options.inline,
                      options.channels, options.outstanding, options.via, pause_us,
                      iterations, tuple(options.extra), min_time)
