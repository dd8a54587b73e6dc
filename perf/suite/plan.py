"""The runs of a sweep: the product of its lists, each combination once. Pure."""

import itertools
from dataclasses import dataclass, field

import results

OPERATIONS = ("latency", "bandwidth", "sendrecv", "all_reduce", "alltoall")
PAIR_OPERATIONS = ("latency", "bandwidth")  # of two hosts, whatever the topology
PERFTEST = ("ib_write_bw", "ib_write_lat", "ib_send_lat")
VARIABLES = {"qps": "NCCL_MESH_QPS", "signal_interval": "NCCL_MESH_SIGNAL_INTERVAL",
             "inline_bytes": "NCCL_MESH_INLINE"}
VIA_MAX = 3  # hosts on the way
PAUSED_US = 1_000_000  # in all, between the timed messages of one run with pauses
PAUSED_LEAST = 20  # messages
MODEL_FLAGS = {"qps": "--qps", "signal_interval": "--signal-interval", "inline_bytes": "--inline"}
RING_OUTSTANDING = 8


@dataclass(frozen=True)
class Sizes:
    low: int
    high: int
    factor: int

    def flags(self):
        return ["-b", str(self.low), "-e", str(self.high), "-f", str(self.factor)]

    def all(self):
        sizes = [self.low]
        while sizes[-1] * self.factor <= self.high:
            sizes.append(sizes[-1] * self.factor)
        return sizes


@dataclass(frozen=True)
class Run:
    """One call of a tool. A setting of None is the plugin's default."""
    operation: str
    settings: tuple  # of (key, value)
    sizes: Sizes
    iterations: int
    extra: tuple = ()
    min_time_ms: int = 0

    @property
    def setting(self):
        return dict(self.settings)

    @property
    def pair(self):
        return self.operation in PAIR_OPERATIONS + PERFTEST

    def title(self):
        said = ["%s %s" % (key, value) for key, value in self.settings
                if value is not None and (value or key not in results.LEFT_OUT)]
        return " ".join([self.operation] + said)

    def environment(self):
        return {VARIABLES[key]: str(value) for key,
                value in self.settings if key in VARIABLES and value is not None}

    def perf_arguments(self):
        words = {"bandwidth": ["sendrecv", "--one-way"]}.get(self.operation,
                                                             [self.operation]) + self.sizes.flags()
        words += ["-n", str(self.iterations)] + (["--min-time", str(self.min_time_ms)]
                                                 if self.min_time_ms else [])
        if self.operation != "latency":
            words += ["--channels", str(self.setting["channels"])]
        if self.operation in ("bandwidth", "sendrecv", "alltoall"):
            words += ["--outstanding", str(self.setting["outstanding"])]
        if self.setting["pause_us"]:
            words += ["--pause", "%g" % (self.setting["pause_us"] / 1000)]
        return words + list(self.extra)

    def model_arguments(self):
        words = ["--one-way"] + self.sizes.flags() + ["--channels", str(self.setting["channels"]),
                                                      "--outstanding",
                                                      str(self.setting["outstanding"])]
        for key, flag in MODEL_FLAGS.items():
            if self.setting[key] is not None:
                words += [flag, str(self.setting[key])]
        if self.setting["via"]:
            words += ["--via", str(self.setting["via"])]
        return words + list(self.extra)


@dataclass
class Lists:
    """The axes of a sweep."""
    operations: list
    sizes: Sizes
    qps: list = field(default_factory=lambda: [None])
    signal_interval: list = field(default_factory=lambda: [None])
    inline_bytes: list = field(default_factory=lambda: [None])
    channels: list = field(default_factory=lambda: [1])
    outstanding: list = field(default_factory=lambda: [8])
    via: list = field(default_factory=lambda: [0])
    pause_us: list = field(default_factory=lambda: [0])
    iterations: dict = field(default_factory=dict)  # by operation
    extra: tuple = ()
    min_time_ms: int = 0


def _run(operation, settings, lists):
    """Returns a run. One with pauses has the smallest size alone, and few iterations."""
    iterations = lists.iterations[operation]
    pause_us = dict(settings)["pause_us"]
    if not pause_us:
        return Run(operation, settings, lists.sizes, iterations, lists.extra, lists.min_time_ms)
    sizes = Sizes(lists.sizes.low, lists.sizes.low, lists.sizes.factor)
    most = max(PAUSED_LEAST, PAUSED_US // pause_us)
    return Run(operation, settings, sizes, min(iterations, most), lists.extra)


def runs(lists):
    """Returns every combination once. A setting that an operation lacks is not varied for it."""
    found = []
    for operation in lists.operations:
        channels = [1] if operation == "latency" else lists.channels
        outstanding = {"latency": [1], "all_reduce": [RING_OUTSTANDING]}.get(operation,
                                                                             lists.outstanding)
        if operation in PERFTEST:
            axes = [[1], [None], [None], [1],
                    [1] if operation.endswith("lat") else lists.outstanding[:1], [0], [0]]
        else:
            via = lists.via if operation in PAIR_OPERATIONS + ("model",) else [0]
            pauses = lists.pause_us if operation == "latency" else [0]
            axes = [lists.qps, lists.signal_interval, lists.inline_bytes, channels, outstanding,
                    via, pauses]
        for values in itertools.product(*axes):
            settings = tuple(zip(("qps", "signal_interval", "inline_bytes", "channels",
                                  "outstanding", "via", "pause_us"), values))
            found.append(_run(operation, settings, lists))
    return found
