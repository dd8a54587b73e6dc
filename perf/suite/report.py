"""Writes a result file as one HTML page that needs no other file: plots, each with its numbers."""

from html import escape

import charts
import figures
import tables

STYLE = """
body { font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, "DejaVu Sans",
       sans-serif; }
body { color: #1a1a1a; background: #f4f5f7; margin: 0; }
main { max-width: 1240px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 25px; margin: 0 0 4px; } h2 { font-size: 20px; margin: 38px 0 4px; }
.kind { display: inline-block; background: #1f3a5f; color: #fff; border-radius: 4px;
         padding: 2px 10px; font-weight: 600; }
.note { background: #fff4d6; border-left: 4px solid #e0a800; padding: 6px 12px; margin: 10px 0; }
.wrong { color: #b00020; font-weight: 700; }
.meta, .common { color: #444; margin: 6px 0; overflow-wrap: anywhere; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 500px), 1fr));
         gap: 16px; margin: 12px 0; }
.plots svg { width: 100%; height: auto; max-width: 760px; background: #fff;
             border: 1px solid #dcdfe4; border-radius: 6px; }
.numbers { overflow-x: auto; background: #fff; border: 1px solid #dcdfe4; border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums;
        font-size: 14px; }
th, td { text-align: right; padding: 4px 12px; white-space: nowrap; }
th { background: #eceff3; font-weight: 600; vertical-align: bottom; }
th small { font-weight: 400; color: #555; } th:first-child, td:first-child { text-align: left; }
th { white-space: normal; } .words { text-align: left; }
tbody tr:nth-child(even) td { background: #fafbfc; }
tbody tr.first td { border-top: 1px solid #c9ced6; }
details { margin: 8px 0 0; } summary { cursor: pointer; color: #1f3a5f; padding: 4px 2px; }
@media print { body { background: #fff; } .plots svg { break-inside: avoid; } }
"""


def table(columns, rows):
    """Returns a table. columns: (name, unit). rows: lists of texts; a row whose first text differs
    from that of the row before begins a group."""
    words = [' class="words"' if name == "settings" else "" for name, _ in columns]
    head = "".join("<th%s>%s%s</th>" %
                   (kind, escape(name), "<br><small>%s</small>" % escape(unit) if unit else "")
                   for kind, (name, unit) in zip(words, columns))
    body, before = [], None
    for row in rows:
        first = row[0] != before
        cells = [row[0] if first else ""] + row[1:]
        marks = ['<td class="wrong">' if cell == "WRONG" else "<td%s>" % kind for cell,
                 kind in zip(cells, words)]
        body.append("<tr%s>%s</tr>" % (' class="first"' if first else "", "".join(
            "%s%s</td>" % (mark, escape(cell)) for mark, cell in zip(marks, cells))))
        before = row[0]
    table = "<table><thead><tr>%s</tr></thead><tbody>%s</tbody></table>" % (head, "\n".join(body))
    return '<div class="numbers">%s</div>' % table


def numbers_of(series, names, all_numbers, what):
    """Returns the series beside one another by size, followed by all numbers."""
    columns, rows = all_numbers(series, names)
    if not rows:
        return ""
    whole = table(columns, rows)
    by_size = [table(*found[1:]) for found in tables.beside(series, names)
               if found[0] == what] if len(series) > 1 else []
    if not by_size:
        return whole
    return "%s<details><summary>All numbers</summary>%s</details>" % (by_size[0], whole)


def label_of(result):
    """Returns the words for every title: the kind of the figures, and their reservations."""
    return "; ".join([result["label"]] + result["notes"])


def sections(title, series, label):
    """Returns the sections of a family: several after a table of winners if one is too small."""
    groups = figures.groups(series)
    if len(groups) == 1:
        return section(title, series, label)
    won = "\n".join(table(columns, rows) for _, columns,
                    rows in tables.best(series, figures.names_of(series)))
    return "\n".join(["<section><h2>%s: best by size</h2>%s</section>" % (escape(title), won)] + [
        section(title + words, members, label) for words, members in groups])


def section(title, series, label):
    names = figures.names_of(series)
    source = [figures.Source(series, names)]
    parts = ["<section><h2>%s</h2>" % escape(title)]
    common = figures.common_text(series)
    if common:
        parts.append('<p class="common">%s</p>' % escape(common))
    for plots, numbers in ((figures.bandwidth_plots(title, label, source),
                            numbers_of(series, names, tables.bandwidth, "bus bandwidth")),
                           (figures.latency_plots(title, label, source),
                            numbers_of(series, names, tables.latency, "latency, one way"))):
        if plots:
            parts += ['<div class="plots">', *[charts.draw(plot) for plot in plots], "</div>",
                      numbers]
    return "\n".join(parts + ["</section>"])


def meta(result):
    place = result["place"]
    where = [text for text in (place["host"], place["cpu"],
                               "%d CPUs" % place["cpus"] if place["cpus"] else "", place["kernel"],
                               place["topology"],
                               "%d ranks" % place["ranks"] if place["ranks"] else "") if text]
    notes = "".join('<p class="note">%s</p>' % escape(note[:1].upper() + note[1:])
                    for note in result["notes"])
    said = " ".join([result["tool"]] + result["arguments"])
    return '<p><span class="kind">%s</span></p>%s<p class="meta">%s<br><code>%s</code></p>' % (
        escape(result["label"]), notes, escape(" \u00b7 ".join(where)), escape(said))


def page(title, body):
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<title>%s</title><style>%s</style></head><body><main>\n<h1>%s</h1>\n%s\n"
        "</main></body></html>\n"
        % (escape(title), STYLE, escape(title), body))


def of(result):
    families = [sections(title, series, label_of(result)) for title,
                series in figures.families(result["series"])]
    explain = (
        '<p class="meta">GB is 10<sup>9</sup> bytes, KiB and MiB are powers of 1024. Bus '
        'bandwidth is the rate on the busiest wire, '
        "as nccl-tests defines it. One way is half a round trip. Point at a mark in a "
        "plot to see its numbers.</p>"
    )
    return page("nccl-mesh performance", meta(result) + explain + "\n".join(families))
