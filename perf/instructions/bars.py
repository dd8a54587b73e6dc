"""The promises of the engine about its own instructions, doorbells and growth, as checks of a
result (see perf/README.md).

Each bar: words, the figure, the most it may be. NCCL's own figures beside some were counted the
same way.
"""

EIGHT = ("burst8", "rolling8")  # the two ways to have eight messages outstanding


def bars(cases):
    """Yields (words, figure, most)."""
    count = {name: case["instructions"]["sum"] for name, case in cases.items()}
    one, many = cases["one-8B"], cases["one-8B-512channels"]
    for pattern in EIGHT:
        yield "instructions, %s of 8 B (NCCL 1074)" % pattern, count[pattern + "-8B"], 537
    yield "instructions, one of 8 B at a time (NCCL 1190)", count["one-8B"], 595
    for pattern in EIGHT:
        words = "instructions, %s of 8 B with the marker" % pattern
        yield words, count[pattern + "-8B-marker"], 400
    for pattern in EIGHT:
        name = pattern + "-1M-4stripes"
        words = "instructions, %s of 1 MiB in four stripes (NCCL 1923)" % pattern
        yield words, count[name], 960
        # Fewer announcements would mean that not all four stripes were posted.
        yield "  stripes fewer than four", 4 - cases[name]["announcements"], 0
    for pattern in EIGHT:
        case = cases[pattern + "-8B"]
        yield "doorbells of both sides, %s (NCCL 2)" % pattern, case["doorbells"]["sum"], 1.5
        yield "send completions, %s (NCCL 1)" % pattern, case["send_completions"], 0.5
    ratio = count["one-8B"] / count["one-8B-signal1"]
    yield "one at a time, relative to NCCL_MESH_SIGNAL_INTERVAL=1", ratio, 1.03
    for pattern in ("one", "rolling8"):
        ratio = count[pattern + "-8B-device"] / count[pattern + "-8B"]
        yield "%s of 8 B, device memory relative to host memory" % pattern, ratio, 1.05
    ratio = cases["group8-8B"]["instructions"]["receiver"] / one["instructions"]["receiver"]
    yield "receiver's instructions, a group of eight relative to eight of 8 B", ratio, 0.5
    ratio = count["one-8B-512channels"] / count["one-8B"]
    yield "512 channels relative to one, instructions", ratio, 1.05
    yield "512 channels, simulated D1 misses (NCCL 36)", many["d1_misses"]["sum"], 12
    channel = many["allocated_bytes_per_channel"]
    yield "512 channels, bytes per further channel and side", channel, 8192
    more = many["queue_pairs"] - one["queue_pairs"]
    yield "512 channels, queue pairs beyond those of one", more, 0
    for rails in (2, 4, 8):
        ratio = count["one-8B-%drails" % rails] / count["one-8B"]
        yield "%d rails relative to one, instructions" % rails, ratio, 1.15
    ratio = count["rolling8-1M-4stripes-8rails"] / count["rolling8-1M-4stripes"]
    yield "8 rails relative to one, 1 MiB in four stripes", ratio, 1.15
    ratio = count["rolling8-1M-2paths"] / count["rolling8-1M-8stripes"]
    yield "two equal paths relative to one, 1 MiB in eight stripes", ratio, 1.5
    ratio = count["rolling8-64K-2paths"] / count["rolling8-64K"]
    yield "two equal paths relative to one, 64 KiB", ratio, 1.5
    ratio = count["every-1M-1qp-512channels"] / count["every-1M-1qp"]
    yield "512 channels of 1 MiB on one queue pair, relative to one", ratio, 1.3
    yield "receivers not ready, all cases", sum(case["rnr_events"] for case in cases.values()), 0


def show(cases):
    """Prints every bar. Returns how many were missed."""
    missed = 0
    print("%-60s %10s %8s" % ("bar", "is", "at most"))
    for words, figure, most in bars(cases):
        met = figure <= most
        missed += not met
        print("%-60s %10.4g %8g  %s" % (words, figure, most, "met" if met else "MISSED"))
    return missed
