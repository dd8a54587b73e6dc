"""The promises of the engine about its own instructions, doorbells and growth, as checks of a
result (see perf/README.md).

Each bar: words, the figure, the most it may be. NCCL's own figures beside some were counted the
same way.
"""

EIGHT = ("burst8", "rolling8")  # the two ways to have eight messages outstanding


def _instructions(cases, name):
    return cases[name]["instructions"]["sum"]


def _ratio(cases, name, to):
    return _instructions(cases, name) / _instructions(cases, to)


def bars(cases):
    """Yields (words, figure, most)."""
    for pattern in EIGHT:
        yield "instructions, %s of 8 B (NCCL 1074)" % pattern, _instructions(cases,
                                                                             pattern + "-8B"), 537
    yield "instructions, one of 8 B at a time (NCCL 1190)", _instructions(cases, "one-8B"), 595
    for pattern in EIGHT:
        yield "instructions, %s of 8 B with the marker" % pattern, _instructions(cases, pattern +
                                                                                 "-8B-marker"), 400
    for pattern in EIGHT:
        name = pattern + "-1M-4stripes"
        yield "instructions, %s of 1 MiB in four stripes (NCCL 1923)" % pattern, _instructions(
            cases, name), 960
        # Fewer announcements would mean that not all four stripes were posted.
        yield "  stripes fewer than four", 4 - cases[name]["announcements"], 0
    for pattern in EIGHT:
        yield "doorbells of both sides, %s (NCCL 2)" % pattern, cases[pattern +
                                                                      "-8B"]["doorbells"][
                                                                          "sum"], 1.5
        yield "send completions, %s (NCCL 1)" % pattern, cases[pattern +
                                                               "-8B"]["send_completions"], 0.5
    yield "one at a time, relative to NCCL_MESH_SIGNAL_INTERVAL=1", _ratio(cases, "one-8B",
                                                                       "one-8B-signal1"), 1.03
    for pattern in ("one", "rolling8"):
        yield "%s of 8 B, device memory relative to host memory" % pattern, _ratio(
            cases, pattern + "-8B-device", pattern + "-8B"), 1.05
    yield "receiver's instructions, a group of eight relative to eight of 8 B", cases["group8-8B"][
        "instructions"]["receiver"] / cases["one-8B"]["instructions"]["receiver"], 0.5
    many = cases["one-8B-512channels"]
    yield "512 channels relative to one, instructions", _ratio(cases, "one-8B-512channels",
                                                           "one-8B"), 1.05
    yield "512 channels, simulated D1 misses (NCCL 36)", many["d1_misses"]["sum"], 12
    yield "512 channels, bytes per further channel and side", many[
        "allocated_bytes_per_channel"], 8192
    yield "512 channels, queue pairs beyond those of one", many["queue_pairs"] - cases["one-8B"][
        "queue_pairs"], 0
    for count in (2, 4, 8):
        yield "%d rails relative to one, instructions" % count, _ratio(
            cases, "one-8B-%drails" % count, "one-8B"), 1.15
    yield "8 rails relative to one, 1 MiB in four stripes", _ratio(
        cases, "rolling8-1M-4stripes-8rails", "rolling8-1M-4stripes"), 1.15
    yield "two equal paths relative to one, 1 MiB in eight stripes", _ratio(
        cases, "rolling8-1M-2paths", "rolling8-1M-8stripes"), 1.5
    yield "two equal paths relative to one, 64 KiB", _ratio(
        cases, "rolling8-64K-2paths", "rolling8-64K"), 1.5
    yield "512 channels of 1 MiB on one queue pair, relative to one", _ratio(
        cases, "every-1M-1qp-512channels", "every-1M-1qp"), 1.3
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
