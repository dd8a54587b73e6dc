"""Compares two result files: draws curves over one another, and differences in a table."""

from html import escape

import charts
import figures
import report
import results
import tables
import units


ALONE_MAX = 8  # series that one line names


def key_of(series):
    return (series["operation"],) + tuple(
        series.get(key) for key in results.SETTINGS + results.LEFT_OUT)


def change(before, after):
    return "%+.1f" % (100 * (after / before - 1)) if before else "\u2013"


MEASURES = (("bus bandwidth", "GB/s", figures.bus),
            ("latency, median", "us", figures.latency("median")),
            ("latency, p99", "us", figures.latency("p99")), ("CPU", "s per GB sent", figures.cpu))


def differences(before, after):
    """Yields (series of A, size, name, unit, value in A, value in B) for every point of both."""
    others = {key_of(series): series for series in after["series"]}
    for series in before["series"]:
        points = {point["bytes"]: point
                  for point in others.get(key_of(series), {"points": []})["points"]}
        for name, unit, value_of in MEASURES:
            for point in series["points"]:
                other = points.get(point["bytes"])
                if other and value_of(point) is not None and value_of(other) is not None:
                    yield series, point["bytes"], name, unit, value_of(point), value_of(other)


def table_text(before, after):
    """Returns the differences as a table for a terminal."""
    lines = ["%-58s %9s %22s %10s %10s %9s" % ("series", "size", "measure", "A", "B", "B to A, %")]
    for series, size, name, unit, a, b in differences(before, after):
        words = key_text(key_of(series))
        lines.append("%-58s %9s %22s %10s %10s %9s" %
                     (words, units.size_text(size), "%s (%s)" % (name, unit.split()[0]),
                     units.figure_text(a), units.figure_text(b), change(a, b)))
    return "\n".join(lines)


def key_text(key):
    said = ["%s %s" % (word, value) for (_, word),
            value in zip(figures.SETTING_TEXTS, key[1:]) if value is not None]
    return ", ".join([key[0]] + said)


def unmatched_text(before, after):
    """Returns one line about series without a counterpart; empty if there are none."""
    alone = ["%s: %s" % (mark, key_text(key)) for mark, key in unmatched(before, after)]
    more = "; and %d more" % (len(alone) - ALONE_MAX) if len(alone) > ALONE_MAX else ""
    return "only one of the two files has: " + "; ".join(alone[:ALONE_MAX]) + more if alone else ""


def unmatched(before, after):
    """Returns the keys that only one of the two files has, each with "A" or "B"."""
    keys = [{key_of(series) for series in result["series"]} for result in (before, after)]
    return [(mark, key) for mark, own,
            other in (("A", *keys), ("B", *keys[::-1])) for key in sorted(own - other, key=str)]


def _section(title, both, label):
    """Returns a section of the page. both: the series of A and of B that share at least one
    picture; equal settings get one colour."""
    styles = {}
    for series in both[0] + both[1]:
        styles.setdefault(key_of(series), len(styles))
    names = figures.names_of(both[0] + both[1])
    names = (names[:len(both[0])], names[len(both[0]):])
    sources = [figures.Source(series, name, dash, mark + ": ",
                              [styles[key_of(one)] for one in series])
               for series, name, dash, mark in zip(both, names, ("solid", "dashed"), "AB")]
    drawn = [charts.draw(plot) for plot in figures.bandwidth_plots(title, label, sources) +
             figures.latency_plots(title, label, sources)]
    rows = []
    named = {key_of(series): name for series, name in zip(both[0], names[0])}
    for series, size, name, unit, a, b in differences({"series": both[0]}, {"series": both[1]}):
        rows.append(["%s: %s (%s)" % (named[key_of(series)], name, unit), units.size_text(size),
                     tables.number(a), tables.number(b),
                     change(a, b)])
    numbers = report.table([("measure", ""), ("size", ""), ("A", ""), ("B", ""), ("B to A", "%")],
                           rows) if rows else ""
    return '<section><h2>%s</h2><div class="plots">%s</div>%s</section>' % (escape(title),
                                                                            "\n".join(drawn),
                                                                            numbers)


def of(before, after):
    """Returns the page. Raises ResultError if the two files may not be compared."""
    if before["kind"] != after["kind"]:
        raise results.ResultError("figures of different kinds cannot be compared: %s and %s" %
                                  (before["kind"], after["kind"]))
    label = report.label_of(before)
    if report.label_of(after) != label:
        label = "A: %s; B: %s" % (label, report.label_of(after))
    families = [dict(figures.families(result["series"])) for result in (before, after)]
    titles = list(dict.fromkeys(list(families[0]) + list(families[1])))
    body = ["<h2>A</h2>", report.meta(before), "<h2>B</h2>", report.meta(after)]
    alone = unmatched_text(before, after)
    if alone:
        body.append('<p class="note">%s</p>' % escape(alone[:1].upper() + alone[1:]))
    for title in titles:
        both = [family.get(title, []) for family in families]
        different = {key_of(series): series for series in both[0] + both[1]}
        for words, members in figures.groups(list(different.values()), figures.CURVES_MAX // 2):
            keys = {key_of(series) for series in members}
            body.append(_section(title + words, [[one for one in series if key_of(one) in keys]
                                                 for series in both], label))
    return report.page("nccl-mesh performance: B compared with A", "\n".join(body))
