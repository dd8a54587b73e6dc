"""The cases: the messages that each moves, and the measurements of one."""

import json
import os
import statistics
import subprocess
import tempfile

import callgrind

HERE = os.path.dirname(os.path.abspath(__file__))
FABRICS = os.path.join(os.path.dirname(HERE), "fabrics")
FABRIC = os.path.join(FABRICS, "null.json")
# Late queue pairs would come from a thread that valgrind lets run at moments of its own.
BASE = {"NCCL_MESH_FABRIC": "soft:" + FABRIC, "NCCL_SOCKET_IFNAME": "lo", "NCCL_MESH_THREADS": "0",
        "NCCL_CONF_FILE": "/dev/null", "NCCL_MESH_LATE_QPS": "0", "NCCL_MESH_LATENCY": "0"}
STRIPED = {"NCCL_MESH_QPS": "4"}
ONE_QUEUE_PAIR = {"NCCL_MESH_QPS": "1"}
ADAPTIVE = {"NCCL_IB_ADAPTIVE_ROUTING": "1"}
UNBATCHED = {"NCCL_MESH_SIGNAL_INTERVAL": "1"}


def rails(count):
    """Returns the settings of a fabric with so many rails at both ends. NCCL names the first."""
    return {"NCCL_MESH_FABRIC": "soft:" + os.path.join(FABRICS, "null%d.json" % count)}


# Two paths, like those of a cable that both PCIe halves serve.
TWO_PATHS = {**rails(2), "NCCL_MESH_RAILS": "all"}

# a multiple of every ring's length, so that what happens once a round is counted in full
MESSAGES = 1024
REPETITIONS = 9
VERBS_MESSAGES = 4096
TRIES = 5
WARM_UP = 2048
TIME_MESSAGES = 40960
TIME_RUNS = 9
DATA_MISSES = ("D1mr", "D1mw")


class Case:
    def __init__(self, name, pattern, **more):
        self.name = name
        self.pattern = pattern
        self.bytes = more.pop("bytes", 8)
        self.channels = more.pop("channels", 1)
        self.marker = more.pop("marker", False)
        self.settings = more.pop("settings", {})
        self.extra = more.pop("extra", [])
        assert not more, more

    def command(self, binary, messages, repetitions=1):
        return [binary, "--pattern", self.pattern, "--bytes", str(self.bytes), "--channels",
                str(self.channels),
                "--messages", str(messages), "--warm-up", str(WARM_UP), "--repetitions",
                str(repetitions),
                *(["--marker"] if self.marker else []), *self.extra]

    def environment(self):
        # The caller's settings are kept, so that their effect can be looked at.
        return {**os.environ, **{k: v for k, v in BASE.items() if k not in os.environ},
                **self.settings}


CASES = [
    Case("one-8B", "one"),
    Case("burst8-8B", "burst8"),
    Case("rolling8-8B", "rolling8"),
    Case("group8-8B", "group8"),
    Case("one-8B-marker", "one", marker=True),
    Case("burst8-8B-marker", "burst8", marker=True),
    Case("rolling8-8B-marker", "rolling8", marker=True),
    Case("one-1M-4stripes", "one", bytes=1 << 20, settings=STRIPED),
    Case("one-1M-4stripes-adaptive", "one", bytes=1 << 20, settings={**STRIPED, **ADAPTIVE}),
    Case("burst8-1M-4stripes", "burst8", bytes=1 << 20, settings=STRIPED),
    Case("rolling8-1M-4stripes", "rolling8", bytes=1 << 20, settings=STRIPED),
    Case("rolling8-1M-4stripes-adaptive", "rolling8", bytes=1 << 20,
         settings={**STRIPED, **ADAPTIVE}),
    Case("one-4K", "one", bytes=1 << 12),
    Case("rolling8-4K", "rolling8", bytes=1 << 12),
    Case("one-64K", "one", bytes=1 << 16),
    Case("one-64K-adaptive", "one", bytes=1 << 16, settings=ADAPTIVE),
    Case("rolling8-64K", "rolling8", bytes=1 << 16),
    Case("rolling8-64K-adaptive", "rolling8", bytes=1 << 16, settings=ADAPTIVE),
    Case("one-8B-signal1", "one", settings=UNBATCHED),
    Case("rolling8-8B-signal1", "rolling8", settings=UNBATCHED),
    Case("one-8B-512channels", "one", channels=512),
    Case("rolling8-8B-512channels", "rolling8", channels=512),
    Case("every-1M-1qp", "every", bytes=1 << 20, settings=ONE_QUEUE_PAIR),
    Case("every-1M-1qp-512channels", "every", bytes=1 << 20, channels=512,
         settings=ONE_QUEUE_PAIR),
    Case("one-8B-1context", "one", extra=["--one-context"]),
    Case("one-8B-2rails", "one", settings=rails(2)),
    Case("one-8B-4rails", "one", settings=rails(4)),
    Case("one-8B-8rails", "one", settings=rails(8)),
    Case("rolling8-1M-4stripes-8rails", "rolling8", bytes=1 << 20,
         settings={**STRIPED, **rails(8)}),
    Case("one-8B-2paths", "one", settings=TWO_PATHS),
    Case("rolling8-8B-2paths", "rolling8", settings=TWO_PATHS),
    Case("rolling8-64K-2paths", "rolling8", bytes=1 << 16, settings=TWO_PATHS),
    Case("rolling8-1M-2paths", "rolling8", bytes=1 << 20, settings={**STRIPED, **TWO_PATHS}),
    Case("rolling8-1M-8stripes", "rolling8", bytes=1 << 20, settings={"NCCL_MESH_QPS": "8"}),
    Case("one-8B-device", "one", extra=["--device"]),
    Case("rolling8-8B-device", "rolling8", extra=["--device"]),
    Case("rolling8-8B-device-flush", "rolling8", extra=["--device", "--flush"]),
    Case("rolling8-1M-4stripes-device-flush", "rolling8", bytes=1 << 20, settings=STRIPED,
         extra=["--device", "--flush"]),
]


def forget_settings():
    """Removes the caller's settings, so that the defaults are measured from here on."""
    for name in [name for name in os.environ if name.startswith("NCCL_")]:
        del os.environ[name]


def run(command, environment):
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise callgrind.Failure("%s exited with %d: %s" %
                                (" ".join(command), done.returncode, reason))
    return json.loads(done.stdout)


def count_instructions(case, options, messages):
    """Returns the figures of our own code under callgrind in the repetition with the least counts,
    per message and side, with data misses if asked for; and the OwnCode from which they were read.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "callgrind.out")
        run(callgrind.command(out, options.caches) +
            case.command(options.binary, messages, REPETITIONS), case.environment())
        own = callgrind.OwnCode(callgrind.least_disturbed(out, REPETITIONS))

    def by_side(total):
        return {side or "sum": round(total(side) / messages, 2)
                for side in ("sender", "receiver", "")}

    figures = {"instructions": by_side(lambda side: own.sum_of(side, ("Ir",))),
               "doorbells": by_side(lambda side: own.entries_of(side, "null_post_send")),
               "polls": by_side(lambda side: own.entries_of(side, "null_poll_cq")),
               "calls": {call: round(own.sum_of(call, ("Ir",)) / messages, 2)
                         for call in sorted(own.costs)}}
    if options.caches:
        figures["d1_misses"] = by_side(lambda side: own.sum_of(side, DATA_MISSES))
    return figures, own


def run_counted(case, options, messages):
    """Runs until the fabric's counts are in the figures. The fabric logs them when the engine ends,
    on a thread after the last finalize; they are lost if that thread ends before the next init."""
    for _ in range(TRIES):
        figures = run(case.command(options.binary, messages), case.environment())
        if figures["fabric"]:
            break
    return figures


def count_verbs(case, options):
    """Returns the null fabric's counts per message: the difference of two runs, so that set-up and
    end cancel."""
    few, many = (run_counted(case, options, messages)
                 for messages in (VERBS_MESSAGES, 3 * VERBS_MESSAGES))
    more = many["messages"] - few["messages"]
    if not (few["fabric"] and many["fabric"]):
        raise callgrind.Failure("NCCL_MESH_FABRIC=%s is not a null fabric" %
                                case.environment()["NCCL_MESH_FABRIC"])
    names = ("work_requests", "announcements", "send_completions", "receive_completions",
             "receives_posted", "rnr_events")
    figures = {name: round((many["fabric"][name] - few["fabric"][name]) / more, 4)
               for name in names}
    figures["compiler"] = many["compiler"]
    figures["queue_pairs"] = many["fabric"]["queue_pairs"]
    figures["registered_bytes"] = many["fabric"]["registered_bytes"] - many["user_bytes"]
    if case.channels > 1:
        # malloc's, registered memory included; a channel is one side's half of a connection.
        figures["allocated_bytes_per_channel"] = round(many["grown_bytes"] / (case.channels - 1) /
                                                       2)
    return figures


def measure_time(case, options):
    """Returns the CPU nanoseconds of a message outside callgrind: both ends and the fabric."""
    times = run(case.command(options.binary, TIME_MESSAGES, TIME_RUNS),
                case.environment())["cpu_ns"]
    return {"cpu_ns": {"median": round(statistics.median(times), 1), "least": round(min(times), 1),
                       "runs": len(times)}}
