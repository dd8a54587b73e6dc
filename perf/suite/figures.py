"""Makes plots of series: the series that belong in one picture, the name of each, and the axes.
Pure."""

from dataclasses import dataclass, field

import results
import units

# Operations that are measured alike, so that they may stand in one picture.
FAMILIES = (("One way between two hosts", ("sendrecv one way", "ib_write_bw", "ib_send_bw")),
            ("One message at a time", ("latency", "ib_write_lat", "ib_send_lat")))
OURS = "nccl-mesh"
TITLES = {"all_reduce": "All-reduce on a ring", "sendrecv": "Send and receive around a ring",
          "alltoall": "All to all", "latency after a pause": "One message after a pause"}
CURVES_MAX = 8  # as many as there are colours
SETTING_TEXTS = (("qps", "QPS"), ("signal_interval", "SIGNAL_INTERVAL"), ("inline_bytes", "INLINE"),
                 ("channels", "channels"),
                 ("outstanding", "outstanding"), ("via", "over"), ("pause_us", "after"))


def family_of(operation):
    for title, members in FAMILIES:
        if operation in members:
            return title
    return TITLES.get(operation, operation)


def families(series):
    """Returns [(title, its series)] in the order of their first appearance."""
    found = {}
    for one in series:
        found.setdefault(family_of(one["operation"]), []).append(one)
    return list(found.items())


def groups(series, most=CURVES_MAX):
    """Returns [(words, series)], split by one setting after the other until no picture has more
    series than eyes can tell apart."""
    found = [("", series)]
    for key, word in SETTING_TEXTS:
        if max(len(members) for _, members in found) <= most:
            break
        split = []
        for words, members in found:
            values = list(dict.fromkeys(one.get(key) for one in members))
            for value in values:
                chosen = [one for one in members if one.get(key) == value]
                split.append((words + (", " + setting_text(chosen[0], key, word) if len(values) > 1
                                       else ""), chosen))
        found = split
    return [("%s, part %d" % (words, start // most + 1) if len(members) > most else words,
             members[start:start + most])
            for words, members in found for start in range(0, len(members), most)]


def setting_text(series, key, word):
    value = series.get(key)
    if key == "via":
        return "direct" if not value else "over %d host%s" % (value, "" if value == 1 else "s")
    if key == "pause_us":
        return "after %g ms" % ((value or 0) / 1000)
    return "%s %s" % (word, "default" if value is None else value)


def operation_text(operation):
    return operation if operation.startswith("ib_") else OURS


def names_of(series):
    """Returns a name for each series, made only of what tells it from other series."""
    programs = {operation_text(one["operation"]) for one in series}
    ours = [one for one in series if operation_text(one["operation"]) == OURS]
    varying = [(key, word) for key,
               word in SETTING_TEXTS if len({one.get(key) for one in ours}) > 1]
    names = []
    for one in series:
        program = operation_text(one["operation"])
        parts = [program] if len(programs) > 1 or not varying else []
        if program == OURS:
            parts += [setting_text(one, key, word) for key, word in varying]
        names.append(", ".join(parts))
    return names


def common_text(series):
    """Returns the settings that all series of our tools share."""
    ours = [one for one in series if operation_text(one["operation"]) == OURS]
    whose = "" if len(series) == 1 else "For all: " if len(ours) == len(series) else OURS + ": "
    said = ", ".join(setting_text(ours[0], key, word) for key, word in SETTING_TEXTS
                     if ours and len({one.get(key) for one in ours}) == 1
                     and (key not in results.LEFT_OUT or ours[0].get(key)))
    return whose + said if said else ""


@dataclass
class Curve:
    """points: (size, value, what the pointer shows). style: the number of its colour and marker.
    dash: the name of its line's pattern; charts.py has the patterns."""
    name: str
    points: list
    style: int = 0
    dash: str = "solid"


@dataclass
class Ceiling:
    """A line across the plot: the rate that the links let through.
    With the role "yardstick" it is another rate to compare with."""
    value: float
    text: str
    role: str = "ceiling"


@dataclass
class Plot:
    """Curves over the message size. size_unit: 0 for a logarithmic size axis, else the axis is
    linear and this is its unit in bytes."""
    title: str
    label: str  # what kind of figures these are
    x_title: str
    y_title: str
    logarithmic: bool  # the y axis; the other kind begins at 0
    curves: list
    ceilings: list = field(default_factory=list)
    size_unit: int = 0


@dataclass
class Source:
    """Series that are drawn alike: those of one file, or of one of two files that are compared."""
    series: list
    names: list
    dash: str = "solid"
    prefix: str = ""
    styles: list = field(default_factory=list)

    def curves(self, value_of, suffix="", dash=None):
        """Returns the curves with at least one point. value_of(point) is a value or None."""
        found = []
        for index, (one, name) in enumerate(zip(self.series, self.names)):
            style = self.styles[index] if self.styles else index
            named = self.prefix + name + suffix
            points = [(point["bytes"], value_of(point), "%s\n%s: %s" % (
                named, units.size_text(point["bytes"]), units.figure_text(value_of(point))))
                for point in one["points"] if value_of(point)]
            if points:
                found.append(Curve(named, points, style, self.dash if dash is None else dash))
        return found


def bus(point):
    return point["bandwidth"]["bus_gbytes_per_s"] if point.get("bandwidth") else None


def whose_ceiling(point):
    return "slots'" if "ceiling_of" in point["bandwidth"] else "link's"


def ceiling(point):
    return point["bandwidth"].get("ceiling_gbytes_per_s") if point.get("bandwidth") else None


def memcpy_rate(point):
    return (point.get("extra") or {}).get("memcpy_gbytes_per_s")


def cpu(point):
    return point.get("cpu_seconds_per_gb")


def latency(which):
    return lambda point: point["latency_us"][which] if point.get("latency_us") else None


def rate_unit(series):
    """Returns (name, how many of it are 1 GB/s) of the unit in which the best rate is readable."""
    best = max((bus(point) for one in series for point in one["points"] if bus(point)), default=1)
    return ("GB/s", 1) if best >= 0.1 else ("MB/s", 1000)


def _yardsticks(sources, unit):
    """Yields memcpy's rate, which is memory's for the largest blocks, because small blocks stay in
    the caches. Of several runs it takes the best."""
    rates = [(point["bytes"], memcpy_rate(point), source.prefix) for source in sources
             for one in source.series for point in one["points"]
             if memcpy_rate(point)]
    for prefix in dict.fromkeys(prefix for _, _, prefix in rates):
        size, rate, _ = max(one for one in rates if one[2] == prefix)
        rate *= unit[1]
        words = "%smemcpy by one thread, blocks of %s: %s %s" % (prefix, units.size_text(size),
                                                                 units.figure_text(rate), unit[0])
        yield Ceiling(rate, words, "yardstick")


def _ceilings(sources, unit):
    values = sorted({(ceiling(point), whose_ceiling(point)) for source in sources
                     for one in source.series for point in one["points"] if ceiling(point)})
    links = [Ceiling(value * unit[1], "%s ceiling: %s %s" %
                     (whose, units.figure_text(value * unit[1], 4), unit[0]))
             for value, whose in values]
    return links + list(_yardsticks(sources, unit))


def _largest_unit(curves):
    """Returns (bytes, name) of the unit in which the largest size is one or more."""
    most = max(size for curve in curves for size, _, _ in curve.points)
    return max(unit for unit in units.SIZE_UNITS if unit[0] <= max(1, most))


SIZE_LOG = "message size (logarithmic)"


def bandwidth_plots(title, label, sources):
    unit = rate_unit([one for source in sources for one in source.series])
    curves = [curve for source in sources
              for curve in source.curves(lambda point: (bus(point) or 0) * unit[1])]
    if not curves:
        return []
    ceilings = _ceilings(sources, unit)
    plots = [Plot("%s: bandwidth" % title, label, SIZE_LOG,
                  "bus bandwidth (%s)" % unit[0], False, curves, ceilings),
             Plot("%s: bandwidth, logarithmic" % title, label, SIZE_LOG,
                  "bus bandwidth (%s, logarithmic)" % unit[0], True, curves, ceilings)]
    used = [curve for source in sources for curve in source.curves(cpu)]
    if used:
        plots.append(Plot("%s: CPU time" % title, label, SIZE_LOG,
                          "CPU seconds per GB sent, all ranks (logarithmic)", True, used))
    return plots


def latency_plots(title, label, sources):
    median = [curve for source in sources for curve in source.curves(latency("median"), ", median")]
    if not median:
        return []
    tail_dash = {"solid": "dotted", "dashed": "dash-dotted"}
    tail = [curve for source in sources
            for curve in source.curves(latency("p99"), ", p99", tail_dash[source.dash])]
    size_unit, unit_name = _largest_unit(median)
    # The linear plot has no tail, which would press every other curve to the ground.
    return [Plot("%s: latency" % title, label, SIZE_LOG,
                 "latency, one way (us, logarithmic)", True, median + tail),
            Plot("%s: median latency, linear" % title, label, "message size (%s)" % unit_name,
                 "latency, one way (us)", False, median, size_unit=size_unit)]
