"""Axes have few, round ticks that hold all values."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../perf/suite"))
import ticks


class Axes(unittest.TestCase):
    def test_linear_axes_hold_every_value_with_few_ticks(self):
        for high in (0.003, 0.1, 0.98, 1, 1.0001, 2.4, 7, 9.99, 10, 12.25, 24.51, 99, 1000, 123456):
            with self.subTest(high=high):
                axis = ticks.Linear(high)
                self.assertGreaterEqual(axis.high, high)
                self.assertLess(axis.high, high * 1.5)
                self.assertEqual(axis.ticks[0], 0)
                self.assertAlmostEqual(axis.ticks[-1], axis.high)
                self.assertTrue(ticks.TICKS_MIN <= len(axis.ticks) <= ticks.TICKS_MAX, axis.ticks)
                self.assertEqual(len({ticks.number_text(tick) for tick in axis.ticks}), len(axis.ticks), "labels repeat")

    def test_linear_steps_are_round(self):
        self.assertEqual(ticks.Linear(12.25).ticks, [0, 2.5, 5, 7.5, 10, 12.5])
        self.assertEqual(ticks.Linear(0).high, 1)

    def test_logarithmic_axes_hold_every_value(self):
        for low, high in ((0.5, 0.6), (1, 1), (1, 10), (0.02, 9000), (1e-6, 1e9)):
            with self.subTest(low=low, high=high):
                axis = ticks.Log(low, high)
                self.assertLessEqual(axis.low, low * 1.000001)
                self.assertGreaterEqual(axis.high, high * 0.999999)
                self.assertLessEqual(len(axis.ticks), ticks.TICKS_MAX + 1)
                self.assertTrue(0 <= axis.place(low) < axis.place(high * 1.01) <= 1)

    def test_sizes_are_powers_of_two(self):
        axis = ticks.Sizes([8, 64, 4096, 1 << 20])
        self.assertEqual(axis.low, 8)
        self.assertEqual(axis.high, 1 << 20)
        self.assertAlmostEqual(axis.place(8), 0)
        self.assertAlmostEqual(axis.place(1 << 20), 1)
        self.assertEqual(ticks.Sizes([0]).ticks, [1, 2])

    def test_texts(self):
        for value, text in ((0, "0"), (0.05, "0.05"), (2.5, "2.5"), (10, "10"), (12.2512, "12.3"), (0.98037, "0.98"),
                            (1234.5, "1234"), (1234567, "1\u2009234\u2009567"),
                            (0.000123, "0.000123"), (99.96, "100")):
            self.assertEqual(ticks.number_text(value), text)
        for count, text in ((8, "8 B"), (1000, "1000 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (1 << 20, "1 MiB"), (3 << 30, "3 GiB")):
            self.assertEqual(ticks.size_text(count), text)


if __name__ == "__main__":
    unittest.main()
