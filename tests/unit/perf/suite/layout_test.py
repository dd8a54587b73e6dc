"""Plots without a browser: from the boxes of all texts, worked out with a wide font, no two overlap, none is cut off, axes have
units, ceilings are in the picture; and the page needs nothing from outside."""

import os
import re
import sys
import unittest
import xml.etree.ElementTree as tree

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../perf/suite"))
import compare
import figures
import layout
import report
import samples
import svg
import tables


def plots_of(value):
    label = report.label_of(value)
    split = [group for title, series in figures.families(value["series"])
             for group in [(title, series)] + [(title + words, members) for words, members in figures.groups(series)]]
    for title, series in split:
        source = [figures.Source(series, figures.names_of(series))]
        yield from figures.bandwidth_plots(title, label, source) + figures.latency_plots(title, label, source)


class Layout(unittest.TestCase):
    def each(self):
        for _, value in samples.many():
            for plot in plots_of(value):
                yield plot, layout.lay_out(plot)

    def test_texts_do_not_overlap(self):
        for _, laid in self.each():
            boxes = [(text.text, text.box) for text in laid.texts]
            for index, (text, box) in enumerate(boxes):
                for other, its in boxes[index + 1:]:
                    self.assertFalse(box.overlaps(its), "%r and %r" % (text, other))

    def test_texts_are_inside_the_plot(self):
        for _, laid in self.each():
            for text in laid.texts:
                self.assertTrue(text.box.inside(laid.frame), text)

    def test_curves_and_ceilings_are_inside_the_axes(self):
        for plot, laid in self.each():
            self.assertTrue(laid.area.inside(laid.frame))
            for curve in plot.curves:
                for size, value, _ in curve.points:
                    self.assertTrue(plot.y_axis.low <= value <= plot.y_axis.high * 1.000001, (value, plot.y_axis.high))
                    self.assertTrue(layout.Box(*laid.at(size, value), 0, 0).inside(layout.Box(
                        laid.area.x - 0.01, laid.area.y - 0.01, laid.area.width + 0.02, laid.area.height + 0.02)))
            for ceiling in plot.ceilings:
                self.assertLess(laid.area.y, laid.at(1, ceiling.value)[1])

    def test_ceilings_are_labelled_beside_their_lines(self):
        for plot, laid in self.each():
            said = [text for text in laid.texts if text.role == "ceiling"]
            if len({ceiling.value for ceiling in plot.ceilings}) == 1:
                self.assertEqual(len(said), 1)
                self.assertLess(abs(said[0].y - laid.at(1, plot.ceilings[0].value)[1]), 20)

    def test_a_ceiling_s_label_keeps_away_from_the_usual_curves(self):
        value = samples.file([samples.bandwidth(qps=1), samples.bandwidth(qps=4)])
        for plot in [plot for plot in plots_of(value) if plot.ceilings]:
            laid = layout.lay_out(plot)
            box = next(text.box for text in laid.texts if text.role == "ceiling")
            self.assertFalse(any(box.crossed_by(a, b) for a, b in laid.lines()))

    def test_axes_have_units(self):
        for plot, laid in self.each():
            self.assertRegex(plot.y_title, r"\((GB/s|MB/s|us)|seconds per GB")
            self.assertIn(plot.y_title, [text.text for text in laid.texts])
            self.assertTrue(any(re.fullmatch(r"[0-9.]+ (B|KiB|MiB|GiB)", text.text) for text in laid.texts))

    def test_every_title_says_what_kind_of_figures(self):
        for plot, laid in self.each():
            said = " ".join(text.text for text in laid.texts if text.role == "label")
            self.assertEqual(said, " ".join(plot.label.split()))

    def test_boxes_know_what_crosses_them(self):
        box = layout.Box(10, 10, 10, 10)
        self.assertTrue(box.crossed_by((0, 15), (30, 15)))
        self.assertTrue(box.crossed_by((12, 12), (13, 13)))
        self.assertFalse(box.crossed_by((0, 0), (30, 5)))
        self.assertFalse(box.crossed_by((0, 25), (25, 0)) and box.crossed_by((0, 15), (5, 15)))


class Names(unittest.TestCase):
    def test_say_only_what_differs(self):
        made = [samples.bandwidth(qps=1), samples.bandwidth(qps=None)]
        self.assertEqual(figures.names_of(made), ["QPS 1", "QPS default"])
        self.assertEqual(figures.common_text(made), "For all: SIGNAL_INTERVAL default, INLINE default, channels 1, outstanding 8")

    def test_tell_programs_apart(self):
        made = [samples.latency(), samples.series("ib_write_lat", [samples.point(8, delay=2.0)], qps=1)]
        self.assertEqual(figures.names_of(made), ["nccl-mesh", "ib_write_lat"])
        self.assertEqual(len(figures.families(made)), 1)
        self.assertTrue(figures.common_text(made).startswith("nccl-mesh: QPS default"))


class Groups(unittest.TestCase):
    def test_no_picture_has_more_curves_than_colours(self):
        for name, value in samples.many():
            for _, series in figures.families(value["series"]):
                found = figures.groups(series)
                self.assertEqual(sorted(id(one) for _, members in found for one in members), sorted(map(id, series)), name)
                self.assertLessEqual(max(len(members) for _, members in found), figures.CURVES_MAX)
                self.assertEqual(len({words for words, _ in found}), len(found))

    def test_are_split_by_one_setting_after_the_other(self):
        crowd = [samples.bandwidth(qps=qps, inline_bytes=inline) for qps in (1, 2, 4, 8) for inline in (0, 64, 220)]
        self.assertEqual([(words, len(members)) for words, members in figures.groups(crowd)],
                         [(", QPS %d" % qps, 3) for qps in (1, 2, 4, 8)])

    def test_winners_are_named(self):
        slow, fast = samples.bandwidth(qps=1), samples.bandwidth(24.5, qps=2)
        (what, _, rows), = tables.best([slow, fast], figures.names_of([slow, fast]))
        self.assertEqual((what, {row[2] for row in rows}), ("bus bandwidth", {"QPS 2"}))
        quick, late = samples.latency(1.0, qps=1), samples.latency(2.0, qps=2)
        self.assertEqual({row[2] for row in tables.best([quick, late], figures.names_of([quick, late]))[0][2]}, {"QPS 1"})


class Page(unittest.TestCase):
    def test_needs_nothing_from_outside_and_is_well_formed(self):
        for name, value in samples.many():
            with self.subTest(name):
                page = report.of(value)
                self.assertNotRegex(page, r"<script|<link|<img|@import|url\(")
                self.assertNotRegex(page.replace("http://www.w3.org/2000/svg", ""), r"https?://")
                self.assertIn(value["label"].strip(), page)
                for drawn in re.findall(r"<svg.*?</svg>", page, re.S):
                    tree.fromstring(drawn)

    def test_has_a_table_for_every_point(self):
        value = samples.file([samples.bandwidth(qps=1), samples.latency(qps=1)])
        page = report.of(value)
        self.assertEqual(page.count("<tr>") + page.count('<tr class="first">'), 2 + sum(len(one["points"]) for one in value["series"]))

    def test_series_stand_beside_one_another_by_size(self):
        slow = samples.series("ib_write_bw", [samples.point(size, 0.05) for size in samples.sizes(8, 1 << 10)], qps=1)
        ours = samples.bandwidth(0.08, high=1 << 10)
        (what, columns, rows), = tables.beside([ours, slow], ["nccl-mesh", "ib_write_bw"])
        self.assertEqual((what, columns[1:3]), ("bus bandwidth", [("nccl-mesh", "MB/s"), ("ib_write_bw", "MB/s")]))
        self.assertEqual((len(rows), rows[0][0], rows[0][2]), (4, "8 B", "50.0"))
        self.assertIn("All numbers", report.of(samples.file([ours, slow])))
        self.assertIn("nccl-mesh (MB/s)  ib_write_bw (MB/s)", tables.summary(samples.file([ours, slow])))

    def test_shows_wrong_data(self):
        wrong = samples.bandwidth()
        wrong["points"][0]["verified"] = False
        self.assertIn('<td class="wrong">WRONG', report.of(samples.file([wrong])))


class Compare(unittest.TestCase):
    def test_overlays_what_both_have_and_names_the_rest(self):
        before = samples.file([samples.bandwidth(qps=1), samples.latency(), samples.bandwidth(qps=2)])
        after = samples.file([samples.bandwidth(qps=1, link=24.5), samples.latency(), samples.bandwidth(qps=8)])
        rows = list(compare.differences(before, after))
        first = rows[0]
        self.assertEqual((first[1], first[2]), (8, "bus bandwidth"))
        self.assertEqual(compare.change(first[4], first[5]), "+100.0")
        self.assertEqual([(mark, key[1]) for mark, key in compare.unmatched(before, after)], [("A", 2), ("B", 8)])
        page = compare.of(before, after)
        for words in ("A: QPS 1", "B: QPS 1", "+100.0", "Only in one of the two"):
            self.assertIn(words, page)
        self.assertIn("+100.0", compare.table_text(before, after))

    def test_refuses_figures_of_different_kinds(self):
        soft = samples.file([samples.bandwidth()], kind="soft", label="software fabric on this host, not RDMA")
        with self.assertRaisesRegex(compare.results.ResultError, "different kinds are never compared: model and soft"):
            compare.of(samples.file([samples.bandwidth()]), soft)

    def test_its_plots_have_room_too(self):
        value = samples.file([samples.bandwidth(qps=qps, channels=channels) for qps in (1, 4, 8) for channels in (1, 2)])
        for drawn in re.findall(r"<svg.*?</svg>", compare.of(value, value), re.S):
            tree.fromstring(drawn)


class Drawing(unittest.TestCase):
    def test_every_mark_tells_its_numbers(self):
        plot = next(iter(plots_of(samples.file([samples.bandwidth()]))))
        drawn = svg.draw(plot)
        self.assertEqual(len(re.findall(r"<(?:circle|polygon)[^>]*><title>", drawn)), len(plot.curves[0].points))


if __name__ == "__main__":
    unittest.main()
