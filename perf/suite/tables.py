"""Numbers in rows and columns, for the page and for a terminal. Pure."""

import figures
import units

NOTHING = "\u2013"
BESIDE_MAX = 8  # nobody reads more columns than that beside one another


def number(value, factor=1):
    return NOTHING if value is None else units.grouped(units.figure_text(value * factor))


def verdict(point):
    return {None: NOTHING, True: "yes", False: "WRONG"}[point.get("verified")]


def _without_empty(columns, rows):
    """Leaves out columns without any value."""
    kept = [index for index in range(len(columns)) if any(row[index] != NOTHING for row in rows)]
    return [columns[index] for index in kept], [[row[index] for index in kept] for row in rows]


def bandwidth(series, names):
    """Returns (columns, rows) with a row for every point; columns are (name, unit)."""
    unit, factor = figures.rate_unit(series)
    columns = [("settings", ""), ("size", ""), ("bus bandwidth", unit),
               ("of the link's ceiling", "%"), ("size over time", unit),
               ("CPU, all ranks", "s per GB sent"), ("memcpy, same blocks", unit),
               ("iterations", ""), ("every byte verified", "")]
    rows = []
    for one, name in zip(series, names):
        for point in one["points"]:
            if not point.get("bandwidth"):
                continue
            most = figures.ceiling(point)
            share = "%.1f" % (100 * figures.bus(point) / most) if most else NOTHING
            rows.append([name, units.size_text(point["bytes"]), number(figures.bus(point), factor),
                         share,
                         number(point["bandwidth"]["gbytes_per_s"], factor),
                         number(figures.cpu(point)),
                         number(figures.memcpy_rate(point), factor), str(point["iterations"]),
                         verdict(point)])
    return _without_empty(columns, rows)


def latency(series, names):
    keys = ("min", "median", "p99", "p99.9")
    columns = [("settings", ""), ("size", "")] + [(key, "us, one way") for key in keys]
    columns += [("samples", ""), ("every byte verified", "")]
    rows = []
    for one, name in zip(series, names):
        for point in one["points"]:
            if point.get("latency_us"):
                figures_us = point["latency_us"]
                rows.append([name, units.size_text(point["bytes"])] +
                            [number(figures_us[key]) for key in keys] +
                            [str(figures_us["samples"]), verdict(point)])
    return _without_empty(columns, rows)


def _by_size(named, measures):
    """Returns columns and rows: a row for each size; a column for each (series, name) of `named`
    and each (words, unit, value_of, factor) of `measures`."""
    sizes = sorted({point["bytes"] for one, _ in named for point in one["points"]})
    columns, cells = [("size", "")], [[units.size_text(size)] for size in sizes]
    for one, name in named:
        points = {point["bytes"]: point for point in one["points"]}
        for words, unit, value_of, factor in measures:
            columns.append((name, ", ".join(part for part in (words, unit) if part)))
            for row, size in zip(cells, sizes):
                row.append(number(value_of(points[size]) if size in points else None, factor))
    return columns, cells


def beside(series, names):
    """Returns [(what, columns, rows)]: the series next to one another, by size."""
    found = []
    rates = [pair for pair in zip(series, names)
             if any(point.get("bandwidth") for point in pair[0]["points"])]
    delays = [pair for pair in zip(series, names)
              if any(point.get("latency_us") for point in pair[0]["points"])]
    if 0 < len(rates) <= BESIDE_MAX:
        unit, factor = figures.rate_unit(series)
        columns, rows = _by_size(rates, [("", unit, figures.bus, factor)])
        sizes = sorted({point["bytes"] for one, _ in rates for point in one["points"]})
        for words, value_of in (("link's ceiling", figures.ceiling),
                                ("memcpy, same blocks", figures.memcpy_rate)):
            values = {point["bytes"]: value_of(point) for one, _ in rates
                      for point in one["points"] if value_of(point)}
            columns.append((words, unit))
            for row, size in zip(rows, sizes):
                row.append(number(values.get(size), factor))
        found.append(("bus bandwidth",) + _without_empty(columns, rows))
    if 0 < len(delays) <= BESIDE_MAX:
        measures = [(key, "us", figures.latency(key), 1)
                    for key in ("median", "p99")[:2 if len(delays) <= 3 else 1]]
        found.append(("latency, one way",) + _by_size(delays, measures))
    return found


def best(series, names):
    """Returns [(what, columns, rows)]: the winner of many series, by size."""
    found = []
    unit, factor = figures.rate_unit(series)
    for what, measured, value_of, scale, better in (("bus bandwidth", unit, figures.bus, factor,
                                                     max),
                                                    ("latency, one way", "median, us",
                                                     figures.latency("median"), 1, min)):
        winners = {}
        for one, name in zip(series, names):
            for point in one["points"]:
                value = value_of(point)
                if value is not None:
                    winners[point["bytes"]] = better(winners.get(point["bytes"], (value, name)),
                                                     (value, name), key=lambda pair: pair[0])
        rows = [[units.size_text(size), number(value, scale), name] for size,
                (value, name) in sorted(winners.items())]
        if rows:
            found.append((what, [("size", ""), ("best of all", measured), ("settings", "")], rows))
    return found


def text(columns, rows):
    """Returns a table for a terminal."""
    head = [["%s (%s)" % column if column[1] else column[0] for column in columns]] + rows
    widths = [max(len(row[index]) for row in head) for index in range(len(columns))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths))
                     for row in head)


def summary(result):
    """Returns all families of a result file beside one another, for a terminal."""
    label = "; ".join([result["label"]] + result["notes"])
    parts = []
    for title, series in figures.families(result["series"]):
        names = figures.names_of(series)
        crowd = len(series) > figures.CURVES_MAX
        for what, columns, rows in best(series, names) if crowd else beside(series, names):
            parts.append("%s: %s; %s\n%s" % (title, what, label, text(columns, rows)))
    return "\n\n".join(parts)
