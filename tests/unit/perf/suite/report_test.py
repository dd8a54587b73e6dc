"""The report: what every plot must show, that no two of its texts overlap, that the same figures
give the same page, and that the page needs nothing from outside. matplotlib's own tests show how it
draws."""

import functools
import itertools
import os
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree as tree
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0,
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../perf/suite"))
import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

import charts
import compare
import figures
import report
import samples
import tables
import units

MANY = dict(samples.many())
SMALL = [name for name in MANY if not name.startswith("crowd")]


def plots_of(value):
    label = report.label_of(value)
    split = [group for title, series in figures.families(value["series"])
             for group in [(title + words, members) for words,
                           members in figures.groups(series)][:1]]
    for title, series in split:
        source = [figures.Source(series, figures.names_of(series))]
        yield from figures.bandwidth_plots(title, label, source)
        yield from figures.latency_plots(title, label, source)


def drawn_of(value):
    return [(plot, tree.fromstring(charts.draw(plot))) for plot in plots_of(value)]


@functools.lru_cache(maxsize=None)
def drawn_of_many(name):
    return drawn_of(MANY[name])


def texts(drawn):
    return [element.text for element in drawn.iter("{%s}text" % charts.SVG)]


class Plots(unittest.TestCase):
    def test_no_texts_overlap_or_are_cut_off(self):
        for name, value in MANY.items():
            for plot in plots_of(value):
                shown = []
                remember = mock.patch.object(Text, "draw", lambda text, _: shown.append(text))
                with matplotlib.rc_context(charts.STYLE), remember:
                    figure = charts.figure_of(plot)
                    renderer = FigureCanvasAgg(figure).get_renderer()
                    figure.draw(renderer)
                boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in shown
                         if text.get_visible() and text.get_text()]
                self.assertGreater(len(boxes), 8)
                for (text, box), (other, its) in itertools.combinations(boxes, 2):
                    self.assertFalse(box.overlaps(its), (name, plot.title, text, other))
                frame = figure.bbox
                for text, box in boxes:
                    self.assertTrue(frame.x0 <= box.x0 and box.x1 <= frame.x1 and
                                    frame.y0 <= box.y0 and box.y1 <= frame.y1,
                                    (name, plot.title, text))

    def test_every_point_is_marked_and_tells_its_numbers(self):
        for name in SMALL:
            for plot, drawn in drawn_of_many(name):
                titles = [element.text for element in drawn.iter("{%s}title" % charts.SVG)]
                self.assertEqual(
                    titles, [words for curve in plot.curves for _, _, words in curve.points], name)

    def test_axes_have_units_and_say_where_they_are_logarithmic(self):
        for name in SMALL:
            for plot, drawn in drawn_of_many(name):
                said = texts(drawn)
                self.assertRegex(plot.y_title, r"\((GB/s|MB/s|us)|seconds per GB")
                self.assertEqual(plot.logarithmic, "logarithmic" in plot.y_title)
                self.assertIn(plot.y_title, said)
                self.assertIn(plot.x_title, said)
                if plot.size_unit:
                    self.assertRegex(plot.x_title, r"\((B|KiB|MiB|GiB)\)")
                else:
                    self.assertIn("logarithmic", plot.x_title)
                    size = re.compile(r"[0-9.]+ (B|KiB|MiB|GiB)")
                    self.assertTrue(any(size.fullmatch(text) for text in said), said)

    def test_the_legend_names_every_curve_and_ceiling(self):
        value = samples.file([samples.bandwidth(qps=1), samples.bandwidth(qps=4),
                              samples.latency(qps=1), samples.latency(qps=4)])
        said = {plot.title: texts(drawn) for plot, drawn in drawn_of(value)}
        for title in ("One way between two hosts: bandwidth",
                      "One way between two hosts: bandwidth, logarithmic"):
            for words in ("QPS 1", "QPS 4", "link's ceiling: 12.25 GB/s"):
                self.assertIn(words, said[title])
        for words in ("QPS 1, median", "QPS 1, p99", "QPS 4, p99"):
            self.assertIn(words, said["One message at a time: latency"])

    def test_a_ceiling_of_slots_is_named(self):
        curve = samples.bandwidth()
        for point in curve["points"]:
            point["bandwidth"]["ceiling_of"] = "slots"
        drawn = drawn_of(samples.file([curve]))
        self.assertIn("slots' ceiling: 12.25 GB/s", texts(drawn[0][1]))

    def test_curves_and_ceilings_are_inside_the_axes(self):
        for name in SMALL:
            for plot in plots_of(MANY[name]):
                axes = charts.figure_of(plot).axes[0]
                (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
                for line in axes.lines:
                    self.assertTrue(all(low <= value <= high for value in line.get_ydata()),
                                    (name, plot.title))
                for line in axes.lines[:len(plot.curves)]:
                    self.assertTrue(all(left <= size <= right for size in line.get_xdata()),
                                    (name, plot.title))

    def test_every_plot_says_what_kind_of_figures(self):
        for kind, label in (("model", "model, not measured"), ("rdma", "rdma (soft-RoCE)"),
                            ("soft", "software fabric on this host, not RDMA")):
            value = samples.file([samples.bandwidth(), samples.latency()],
                                 kind=kind, label=label, notes=["a note"])
            for plot, drawn in drawn_of(value):
                self.assertIn("%s; a note" % label, texts(drawn))
                self.assertEqual(drawn.get("aria-label"), "%s; %s; a note" % (plot.title, label))


class Texts(unittest.TestCase):
    def test_figures_have_three_digits_that_count_and_sizes_a_unit(self):
        for value, text in ((0, "0"), (12.2512, "12.3"), (0.000123, "0.000123"), (99.96, "100"),
                            (1234567, "1\u2009234\u2009567")):
            self.assertEqual(units.number_text(value), text)
        for count, text in ((1000, "1000 B"), (1536, "1.5 KiB"), (3 << 30, "3 GiB")):
            self.assertEqual(units.size_text(count), text)

    def test_names_say_only_what_differs(self):
        made = [samples.bandwidth(qps=1), samples.bandwidth(qps=None)]
        self.assertEqual(figures.names_of(made), ["QPS 1", "QPS default"])
        self.assertEqual(
            figures.common_text(made),
            "For all: SIGNAL_INTERVAL default, INLINE default, channels 1, outstanding 8")

    def test_names_tell_programs_apart(self):
        made = [samples.latency(),
                samples.series("ib_write_lat", [samples.point(8, delay=2.0)], qps=1)]
        self.assertEqual(figures.names_of(made), ["nccl-mesh", "ib_write_lat"])
        self.assertEqual(len(figures.families(made)), 1)
        self.assertTrue(figures.common_text(made).startswith("nccl-mesh: QPS default"))


class Groups(unittest.TestCase):
    def test_no_picture_has_more_curves_than_colours(self):
        for name, value in samples.many():
            for _, series in figures.families(value["series"]):
                found = figures.groups(series)
                self.assertEqual(sorted(id(one) for _, members in found for one in members),
                                 sorted(map(id, series)), name)
                self.assertLessEqual(max(len(members) for _, members in found), figures.CURVES_MAX)
                self.assertEqual(len({words for words, _ in found}), len(found))

    def test_winners_are_named(self):
        slow, fast = samples.bandwidth(qps=1), samples.bandwidth(24.5, qps=2)
        (what, _, rows), = tables.best([slow, fast], figures.names_of([slow, fast]))
        self.assertEqual((what, {row[2] for row in rows}), ("bus bandwidth", {"QPS 2"}))
        quick, late = samples.latency(1.0, qps=1), samples.latency(2.0, qps=2)
        self.assertEqual({row[2]
                          for row in tables.best([quick, late],
                                                 figures.names_of([quick, late]))[0][2]}, {"QPS 1"})


class Page(unittest.TestCase):
    def test_needs_nothing_from_outside_and_is_well_formed(self):
        for name in ("usual", "words that are not ours"):
            value = MANY[name]
            with self.subTest(name):
                page = report.of(value)
                self.assertNotRegex(page, r"<script|<link|<img|@import|url\((?!#)")
                self.assertNotRegex(page.replace(charts.SVG, "").replace(charts.XLINK, ""),
                                    r"https?://")
                self.assertIn(value["label"].strip(), page)
                self.assertNotIn("<g>", page)
                for drawn in re.findall(r"<svg.*?</svg>", page, re.S):
                    tree.fromstring(drawn)

    def test_series_stand_beside_one_another_by_size(self):
        slow = samples.series("ib_write_bw", [samples.point(size, 0.05)
                                              for size in samples.sizes(8, 1 << 10)], qps=1)
        ours = samples.bandwidth(0.08, high=1 << 10)
        (what, columns, rows), = tables.beside([ours, slow], ["nccl-mesh", "ib_write_bw"])
        self.assertEqual((what, columns[1:3]),
                         ("bus bandwidth", [("nccl-mesh", "MB/s"), ("ib_write_bw", "MB/s")]))
        self.assertEqual((len(rows), rows[0][0], rows[0][2]), (4, "8 B", "50.0"))
        self.assertIn("All numbers", report.of(samples.file([ours, slow])))
        self.assertIn("nccl-mesh (MB/s)  ib_write_bw (MB/s)",
                      tables.summary(samples.file([ours, slow])))

    def test_shows_wrong_data(self):
        wrong = samples.bandwidth()
        wrong["points"][0]["verified"] = False
        self.assertIn('<td class="wrong">WRONG', report.of(samples.file([wrong])))


class Compare(unittest.TestCase):
    def test_overlays_what_both_have_and_names_the_rest(self):
        before = samples.file([samples.bandwidth(qps=1), samples.latency(),
                               samples.bandwidth(qps=2)])
        after = samples.file([samples.bandwidth(qps=1, link=24.5), samples.latency(),
                              samples.bandwidth(qps=8)])
        rows = list(compare.differences(before, after))
        first = rows[0]
        self.assertEqual((first[1], first[2]), (8, "bus bandwidth"))
        self.assertEqual(compare.change(first[4], first[5]), "+100.0")
        self.assertEqual([(mark, key[1]) for mark, key in compare.unmatched(before, after)],
                         [("A", 2), ("B", 8)])
        page = compare.of(before, after)
        for words in ("A: QPS 1", "B: QPS 1", "+100.0", "Only one of the two files has"):
            self.assertIn(words, page)
        self.assertIn("+100.0", compare.table_text(before, after))

    def test_refuses_figures_of_different_kinds(self):
        soft = samples.file([samples.bandwidth()], kind="soft",
                            label="software fabric on this host, not RDMA")
        with self.assertRaisesRegex(compare.results.ResultError,
                                    "different kinds cannot be compared: model and soft"):
            compare.of(samples.file([samples.bandwidth()]), soft)


class Drawing(unittest.TestCase):
    def test_the_same_figures_give_the_same_page(self):
        program = ("import report, samples; "
                   "print(report.of(samples.file([samples.bandwidth(), samples.latency()])))")
        pages = set()
        for seed in ("1", "2"):  # of Python's hashes, which differ from process to process
            environment = dict(os.environ, PYTHONHASHSEED=seed, PYTHONDONTWRITEBYTECODE="1",
                               PYTHONPATH=os.pathsep.join(sys.path))
            pages.add(subprocess.run([sys.executable, "-c", program], capture_output=True,
                                     text=True,
                                     check=True, timeout=300, env=environment).stdout)
        self.assertEqual(len(pages), 1)
        self.assertNotRegex(pages.pop(), r"dc:date|<metadata")

if __name__ == "__main__":
    unittest.main()
