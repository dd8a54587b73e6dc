"""Draws a plot of figures.py by matplotlib, as one <svg> that needs nothing from outside.

It has no script and no font file, and the same plot gives the same bytes.
"""

import io
import itertools
import math
import textwrap
import xml.etree.ElementTree as tree

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

import units

# People with every kind of colour vision tell these apart (Okabe and Ito).
# They are dark enough for thin lines on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#9b4f96", "#b8860b", "#2f9fd6", "#444444", "#c2185b")
MARKERS = ("o", "s", "^", "D")
CEILINGS = {"ceiling": "#b00020", "yardstick": "#666666"}
DASHES = {"solid": "-", "dashed": (0, (4, 2.5)), "dotted": (0, (1, 2)),
          "dash-dotted": (0, (4, 2, 1, 2))}
SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"

WIDTH, AREA_HEIGHT, ROW_HEIGHT, LINE_HEIGHT = 6.4, 3.5, 0.2, 0.19  # inches, of 72 points
TITLE_COLUMNS, LABEL_COLUMNS, LEGEND_COLUMNS, LEGEND_NAME_MAX = 54, 74, 32, 72  # characters
SIZE_TICKS_MAX = 8
NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
STYLE = {
    # Texts stay texts: they can be searched, and the file stays small.
    "svg.fonttype": "none",
    # This font is a wide one: those that a browser may take in its place are narrower.
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 9,
    "axes.titlesize": 9, "axes.grid": True, "grid.color": "#e4e4e4", "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False,
    "lines.linewidth": 1.5, "lines.markersize": 4.5,
}


def _size_ticks(sizes):
    """Returns powers of two from the smallest to the largest size, at even distances."""
    first, last = math.floor(math.log2(min(sizes))), math.ceil(math.log2(max(sizes)))
    return [2 ** power for power in range(first, last + 1, 1 + (last - first) // SIZE_TICKS_MAX)]


def _x_axis(axes, plot, sizes):
    if plot.size_unit:
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: units.number_text(size)))
        return
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(_size_ticks(sizes)))
    axes.xaxis.set_minor_locator(FixedLocator([]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: units.size_text(size)))


def _y_axis(axes, plot, values):
    if plot.logarithmic:
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values) * 1.04))
        axes.set_yscale("log")
        axes.set_ylim(10.0 ** low, 10.0 ** max(high, low + 1))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high - low <= 3 else (1,)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, max(values) * 1.08)
        axes.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.number_text(value)))


def _curves(axes, plot):
    """Draws a line for each curve and each ceiling. A curve's id is its place among the curves."""
    scale = plot.size_unit or 1
    for number, curve in enumerate(plot.curves):
        colour = COLOURS[curve.style % len(COLOURS)]
        axes.plot([max(1, size) / scale for size, _, _ in curve.points],
                  [value for _, value, _ in curve.points],
                  color=colour, linestyle=DASHES[curve.dash], clip_on=False,
                  marker=MARKERS[curve.style % len(MARKERS)],
                  markerfacecolor=colour if curve.dash == "solid" else "white",
                  label=textwrap.shorten(curve.name, LEGEND_NAME_MAX, placeholder="\u2026"),
                  gid="curve%d" % number)
    for ceiling in plot.ceilings:
        axes.axhline(ceiling.value, color=CEILINGS[ceiling.role], linestyle=DASHES["dashed"],
                     label=ceiling.text)


def figure_of(plot):
    """Lays out a plot. matplotlib decides what stands where; the height leaves room for all words
    and legend rows."""
    title = textwrap.wrap(plot.title, TITLE_COLUMNS)
    label = textwrap.wrap(plot.label, LABEL_COLUMNS)
    names = [curve.name for curve in plot.curves] + [ceiling.text for ceiling in plot.ceilings]
    columns = 2 if len(names) > 1 and max(map(len, names)) <= LEGEND_COLUMNS else 1
    below = ROW_HEIGHT * math.ceil(len(names) / columns) + 0.1
    above = LINE_HEIGHT * (len(title) + len(label) + 1)
    figure = Figure(figsize=(WIDTH, above + AREA_HEIGHT + below), layout="constrained")
    axes, legend = figure.subplots(2, gridspec_kw={"height_ratios": (AREA_HEIGHT, below)})
    figure.suptitle("\n".join(title), x=0.01, ha="left", fontsize=11, fontweight="bold")
    axes.set_title("\n".join(label), loc="left", color="#555555")
    _curves(axes, plot)
    sizes = [max(1, size) for curve in plot.curves for size, _, _ in curve.points]
    _x_axis(axes, plot, sizes)
    _y_axis(axes, plot, [value for curve in plot.curves for _, value, _ in curve.points]
            + [one.value for one in plot.ceilings])
    axes.set_xlabel(plot.x_title)
    axes.set_ylabel(plot.y_title)
    legend.axis("off")
    legend.legend(*axes.get_legend_handles_labels(), loc="upper left", ncols=columns,
                  frameon=False, borderaxespad=0, handlelength=3.2)
    return figure


def _with_tooltips(drawn, plot):
    """Gives each mark a title, so that the pointer shows the numbers of the mark that it is on."""
    for number, curve in enumerate(plot.curves):
        marks = drawn.find(".//*[@id='curve%d']" % number).iter("{%s}use" % SVG)
        for mark, (_, _, words) in itertools.zip_longest(marks, curve.points):
            tree.SubElement(mark, "{%s}title" % SVG).text = words


def _without_idle_names(drawn):
    """Removes names that nothing refers to, which would occur twice on a page of several plots."""
    text = tree.tostring(drawn, encoding="unicode")
    for element in drawn.iter():
        name = element.get("id")
        if name and "#" + name not in text:
            del element.attrib["id"]


def _without_idle_groups(element):
    """Puts what groups without an attribute hold in their place."""
    held = [one for child in element for one in _without_idle_groups(child)]
    element[:] = held
    return held if element.tag == "{%s}g" % SVG and not element.attrib else [element]


def draw(plot):
    out = io.StringIO()
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": plot.title}):
        figure_of(plot).savefig(out, format="svg", metadata=NO_METADATA)
    tree.register_namespace("", SVG)
    tree.register_namespace("xlink", XLINK)
    drawn = tree.fromstring(out.getvalue())
    drawn.set("role", "img")
    drawn.set("aria-label", "%s; %s" % (plot.title, plot.label))
    _with_tooltips(drawn, plot)
    _without_idle_names(drawn)
    _without_idle_groups(drawn)
    for element in drawn.iter():
        if not (element.text or "").strip():
            element.text = None
        element.tail = None
    for before, element in itertools.pairwise(drawn):
        if element.tag == "{%s}path" % SVG:  # a line for each, with the marks and words that follow
            before.tail = "\n"
    return tree.tostring(drawn, encoding="unicode")
