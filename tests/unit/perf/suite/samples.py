"""Made-up result files for the tests: every shape a report must cope with."""

import itertools


def point(size, rate=None, ceiling=None, delay=None):
    made = {"bytes": size, "iterations": 100, "verified": True}
    if rate is not None:
        made["bandwidth"] = {"gbytes_per_s": rate, "bus_gbytes_per_s": rate,
                             "ceiling_gbytes_per_s": ceiling}
        made["cpu_seconds_per_gb"] = 0.1 + 100 / size
    if delay is not None:
        made["latency_us"] = {"min": delay * 0.9, "median": delay, "p99": delay * 3,
                              "p99.9": delay * 20, "samples": 100}
    return made


def series(operation, points, **settings):
    made = {"operation": operation, "qps": None, "signal_interval": None, "inline_bytes": None,
            "channels": 1, "outstanding": 8}
    return dict(made, points=points, **settings)


def sizes(low, high, factor=4):
    found = [low]
    while found[-1] * factor <= high:
        found.append(found[-1] * factor)
    return found


def bandwidth(link=12.25, low=8, high=4 << 20, **settings):
    """A curve that comes within 2 % of its link."""
    return series("sendrecv one way", [point(size, 0.98 * link * size / (size + 5000), link)
                                       for size in sizes(low, high)], **settings)


def latency(base=1.2, low=8, high=4 << 20, **settings):
    return series("latency", [point(size, delay=base + size / 12000) for size in sizes(low, high)],
                  **dict(settings, outstanding=1))


def file(made, **fields):
    whole = {"format": "nccl-mesh-results", "version": 1, "kind": "model",
             "label": "model, not measured (two hosts, 100 Gb/s)",
             "tool": "perf/run", "arguments": ["--model"], "notes": [], "series": made,
             "place": {"host": "", "cpu": "", "cpus": 0, "kernel": "", "topology": "pair",
                       "ranks": 2}}
    return dict(whole, **fields)


def many():
    """Files from a single point to a crowd."""
    yield "usual", file([bandwidth(qps=1), bandwidth(qps=4), latency(qps=1), latency(qps=4)])
    yield "one point", file([series("all_reduce", [point(8, 0.001)]),
                             series("latency", [point(1 << 30, delay=90000.0)], outstanding=1)])
    yield "tiny and huge", file([series("all_reduce",
                                        [point(1, 1e-7, 3000.0), point(16 << 30, 2900.0, 3000.0)])])
    crowd = [bandwidth(link, qps=qps, signal_interval=every, inline_bytes=inline, channels=channels)
             for link, qps, every, inline,
             channels in itertools.product((12.25, 12.4, 24.5), (1, 32), (1, 64), (0, 512),
                                           (1, 64))]
    yield "crowd with three ceilings", file([one for one in crowd],
                                            label="rdma (some rails soft-RoCE, emulated) " * 4,
                                            kind="rdma",
                                            notes=["taken on a busy machine",
                                                   "interrupted after 47 of 96 runs"])
    yield "ceiling below the curve", file([series("sendrecv one way",
                                                  [point(size, 5.0, 2.0)
                                                   for size in sizes(8, 1 << 20)])])
    flat = [series("sendrecv one way", [point(size, 12.2, 12.25) for size in sizes(8, 1 << 20)],
                   qps=qps) for qps in (1, 2)]
    yield "flat at the ceiling", file(flat)
    yield "words that are not ours", file([series(
        "<script>alert(1)</script> & an operation of very many words " * 3, [point(8, 1.0)])])
