"""Result files as plain dictionaries, checked as a whole when they are read. The format is in
perf/results/README.md."""

import json
import math

FORMAT = "nccl-mesh-results"
VERSION = 1
KINDS = ("model", "soft", "rdma")
SERIES_MAX = POINTS_MAX = 4096
COUNT_MAX = 2 ** 53  # what every reader of JSON can hold exactly
SETTINGS = ("qps", "signal_interval", "inline_bytes", "channels", "outstanding")
LEFT_OUT = ("via", "pause_us")  # where they are 0
TYPE_NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null",
              int: "number", float: "number"}


class ResultError(Exception):
    """One line: the place, what is wrong there, and what would be right."""


def _fail(text, *arguments):
    raise ResultError(text % arguments)


def _object(value, where, known):
    if not isinstance(value, dict):
        _fail("%s: an object is expected, not %s", where, TYPE_NAMES[type(value)])
    for key in sorted(value):
        if key not in known:
            _fail('%s: unknown key "%s"', where, key)


def _need(value, where, key):
    if key not in value:
        _fail('%s: "%s" is missing', where, key)
    return value[key]


def _text(value, where, key):
    found = _need(value, where, key)
    if not isinstance(found, str):
        _fail("%s.%s: a text is expected, not %s", where, key, json.dumps(found))
    return found


def _count(value, where, key, least):
    found = _need(value, where, key)
    if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= COUNT_MAX:
        _fail("%s.%s: %s is not a whole number of %d..2^53", where, key, json.dumps(found), least)


def _number(found, where):
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        _fail("%s: a number is expected, not %s", where, json.dumps(found))
    if not math.isfinite(found) or found < 0:
        _fail("%s: %s is not a number of 0 or more", where, json.dumps(found))


def _list(value, where, key, most):
    found = _need(value, where, key)
    if not isinstance(found, list):
        _fail("%s.%s: a list is expected, not %s", where, key, TYPE_NAMES[type(found)])
    if len(found) > most:
        _fail("%s.%s: %d entries, at most %d", where, key, len(found), most)
    return found


def _texts(value, where, key):
    for one in _list(value, where, key, POINTS_MAX):
        if not isinstance(one, str):
            _fail("%s.%s: texts are expected, not %s", where, key, json.dumps(one))


def _numbers(value, where, keys, optional=(), others=()):
    _object(value, where, keys + optional + others)
    for key in keys:
        _number(_need(value, where, key), "%s.%s" % (where, key))
    for key in optional:
        if value.get(key) is not None:
            _number(value[key], "%s.%s" % (where, key))


def _latency(value, where):
    _object(value, where, ("min", "median", "p99", "p99.9", "samples"))
    for key in ("min", "median", "p99", "p99.9"):
        _number(_need(value, where, key), "%s.%s" % (where, key))
    _count(value, where, "samples", 1)
    if not value["min"] <= value["median"] <= value["p99"] <= value["p99.9"]:
        _fail("%s: min, median, p99 and p99.9 must not fall", where)


def _point(value, where):
    _object(value, where, ("bytes", "iterations", "verified", "bandwidth", "latency_us",
                           "cpu_seconds_per_gb", "extra"))
    _count(value, where, "bytes", 0)
    _count(value, where, "iterations", 1)
    if not isinstance(value.get("verified"), (bool, type(None))):
        _fail("%s.verified: %s is not true, false or null", where, json.dumps(value["verified"]))
    bandwidth, latency = value.get("bandwidth"), value.get("latency_us")
    if bandwidth is not None:
        _numbers(bandwidth, where + ".bandwidth", ("gbytes_per_s", "bus_gbytes_per_s"),
                 ("ceiling_gbytes_per_s",), ("ceiling_of",))
        if bandwidth.get("ceiling_of", "slots") != "slots":
            _fail("%s.bandwidth.ceiling_of: %s is not \"slots\"", where,
                  json.dumps(bandwidth["ceiling_of"]))
    if latency is not None:
        _latency(latency, where + ".latency_us")
    if bandwidth is None and latency is None:
        _fail("%s: neither bandwidth nor latency_us", where)
    if value.get("cpu_seconds_per_gb") is not None:
        _number(value["cpu_seconds_per_gb"], where + ".cpu_seconds_per_gb")
    extra = value.get("extra")
    if extra is not None:
        _object(extra, where + ".extra", extra)
        for key, number in extra.items():
            _number(number, "%s.extra.%s" % (where, key))


def _series(value, where):
    _object(value, where, ("operation", "points") + LEFT_OUT + SETTINGS)
    if not _text(value, where, "operation"):
        _fail("%s.operation: must not be empty", where)
    for key in LEFT_OUT:
        if key in value:
            _count(value, where, key, 0)
    for key, least in (("qps", 1), ("signal_interval", 1), ("inline_bytes", 0)):
        if value.get(key) is not None:
            _count(value, where, key, least)
    _count(value, where, "channels", 1)
    _count(value, where, "outstanding", 1)
    before = None
    for index, point in enumerate(_list(value, where, "points", POINTS_MAX)):
        place = "%s.points[%d]" % (where, index)
        _point(point, place)
        if before is not None and point["bytes"] <= before:
            _fail("%s.bytes: %d does not rise above the %d before it", place, point["bytes"],
                  before)
        before = point["bytes"]


def check(value):
    """Raises ResultError unless value is a result file's content."""
    _object(value, "file",
            ("format", "version", "kind", "label", "tool", "arguments", "place", "notes", "series"))
    if _text(value, "file", "format") != FORMAT:
        _fail('file.format: "%s" is not "%s"', value["format"], FORMAT)
    _count(value, "file", "version", 1)
    if value["version"] != VERSION:
        _fail("file.version: %d is not the version this program reads (%d)", value["version"],
              VERSION)
    if _text(value, "file", "kind") not in KINDS:
        _fail('file.kind: "%s" is not model, soft or rdma', value["kind"])
    if not _text(value, "file", "label"):
        _fail("file.label: must not be empty")
    _text(value, "file", "tool")
    _texts(value, "file", "arguments")
    place = _need(value, "file", "place")
    _object(place, "place", ("host", "cpu", "cpus", "kernel", "topology", "ranks"))
    for key in ("host", "cpu", "kernel", "topology"):
        _text(place, "place", key)
    for key in ("cpus", "ranks"):
        _count(place, "place", key, 0)
    _texts(value, "file", "notes")
    for index, series in enumerate(_list(value, "file", "series", SERIES_MAX)):
        _series(series, "series[%d]" % index)


def from_json(text):
    def refuse(word):
        raise ValueError(word)

    try:
        value = json.loads(text, parse_constant=refuse)
    except ValueError:
        raise ResultError("not JSON") from None
    check(value)
    return value


def read(path):
    try:
        with open(path, encoding="utf-8") as stream:
            return from_json(stream.read())
    except (OSError, UnicodeDecodeError):
        raise ResultError("%s: cannot be opened" % path) from None
    except ResultError as error:
        raise ResultError("%s: %s" % (path, error)) from None


def write(path, value):
    check(value)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(value, indent=1) + "\n")
