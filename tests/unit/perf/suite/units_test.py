"""Figures have three digits that count, sizes have a unit."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0,
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../perf/suite"))
import units


class Units(unittest.TestCase):
    def test_texts(self):
        for value, text in ((0, "0"), (0.05, "0.05"), (2.5, "2.5"), (10, "10"), (12.2512, "12.3"),
                            (0.98037, "0.98"),
                            (1234.5, "1234"), (1234567, "1\u2009234\u2009567"),
                            (0.000123, "0.000123"), (99.96, "100")):
            self.assertEqual(units.number_text(value), text)
        for count, text in ((8, "8 B"), (1000, "1000 B"), (1024, "1 KiB"), (1536, "1.5 KiB"),
                            (1 << 20, "1 MiB"), (3 << 30, "3 GiB")):
            self.assertEqual(units.size_text(count), text)


if __name__ == "__main__":
    unittest.main()
