"""Calls perftest's RDMA programs between two hosts by a script, and reads their tables. Pure."""

MARK = "suite: perftest"
TX_DEPTH_MIN = 2
WARM_ITERATIONS_MIN = 5  # the least that the programs accept


def script(run, device, marker):
    """Returns the script for bash on ranks 0 (serves) and 1 (calls until somebody listens), with
    RANK and MESH_RENDEZVOUS set: one call for each size, every line of the tables marked."""
    words = [run.operation, "-d", device, "-F", "-n", str(max(run.iterations, WARM_ITERATIONS_MIN))]
    if run.operation.endswith("bw"):
        words += ["--report_gbits", "-q", "1", "-t",
                  str(max(run.setting["outstanding"], TX_DEPTH_MIN))]
    calls = ["call %s -s %d || failed=1" % (" ".join(words), size) for size in run.sizes.all()
             if size >= 2]
    return "\n".join([
        "failed=0",
        "call() {",
        "  local try said",
        '  if [ "$RANK" = 0 ]; then "$@" >/dev/null 2>&1; return; fi',
        "  for try in $(seq 100); do",
        '    if said=$("$@" "${MESH_RENDEZVOUS%%:*}" 2>&1); then',
        '      sed -n "s/^ *\\([0-9][0-9. \\t-]*\\)$/%s \\1/p" <<<"$said"; return' % marker,
        "    fi",
        "    sleep 0.1",
        "  done",
        '  echo "$said" >&2; return 1',
        "}"] + calls + ['[ "$failed" = 0 ]'])


def point_of(operation, words):
    """Returns a table's row as a point of a result file, or None if it is none."""
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        return None
    # bytes, iterations, peak Gb/s, average Gb/s, messages
    if operation.endswith("bw") and len(numbers) == 5:
        rate = numbers[3] / 8
        return {"bytes": int(numbers[0]), "iterations": int(numbers[1]), "verified": None,
                "bandwidth": {"gbytes_per_s": rate, "bus_gbytes_per_s": rate,
                              "ceiling_gbytes_per_s": None}}
    # bytes, iterations, min, max, typical, average, deviation, 99 %, 99.9 %
    if operation.endswith("lat") and len(numbers) == 9:
        return {"bytes": int(numbers[0]), "iterations": int(numbers[1]), "verified": None,
                "latency_us": {"min": numbers[2], "median": numbers[4], "p99": numbers[7],
                               "p99.9": numbers[8], "samples": int(numbers[1])}}
    return None


def series_of(run, lines):
    """Returns the series of a run. lines: those that the script marked, without the mark."""
    points = {}
    for line in lines:
        point = point_of(run.operation, line.split())
        if point:
            points[point["bytes"]] = point
    return {"operation": run.operation, "qps": 1, "signal_interval": None, "inline_bytes": None,
            "channels": 1,
            "outstanding": run.setting["outstanding"],
            "points": [points[size] for size in sorted(points)]}
