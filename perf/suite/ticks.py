"""Axes: which values get a tick, what stands beside it, and where a value lies. Pure."""

import math

TICKS_MIN, TICKS_MAX = 3, 8


def nice_step(span, count):
    """The largest of 1, 2, 2.5, 5 times a power of ten that still gives `count` steps or more of the span."""
    rough = span / count
    power = 10.0 ** math.floor(math.log10(rough))
    return max(step * power for step in (1, 2, 2.5, 5, 10) if step * power <= rough * 1.0000001)


class Linear:
    """From 0 to the first tick at or above the largest value."""

    def __init__(self, high):
        high = high if high > 0 else 1.0
        step = nice_step(high, 4)
        steps = math.ceil(high / step - 1e-9)
        if steps > TICKS_MAX - 1:
            step *= 2
            steps = math.ceil(high / step - 1e-9)
        self.low, self.high, self.ticks = 0.0, step * steps, [step * i for i in range(steps + 1)]

    def place(self, value):
        return min(max(value / self.high, 0.0), 1.0)


class Log:
    """Powers of `base` around the values; never more than TICKS_MAX labelled, evenly left out."""

    def __init__(self, low, high, base=10):
        self.base = base
        first = math.floor(math.log(low, base) + 1e-9)
        last = max(math.ceil(math.log(high, base) - 1e-9), first + 1)
        every = 1 + (last - first) // TICKS_MAX
        self.low, self.high = float(base) ** first, float(base) ** last
        self.ticks = [float(base) ** power for power in range(first, last + 1, every)]
        self._span = (math.log(self.high) - math.log(self.low))
        # 2 and 5 times each power of ten, labelled where there is room.
        self.minor = []
        if base == 10 and last - first <= 4:
            self.minor = [tick * step for tick in self.ticks for step in (2, 5) if tick * step < self.high]
        if last - first <= 2:
            self.ticks, self.minor = sorted(self.ticks + self.minor), []

    def place(self, value):
        if value <= self.low:
            return 0.0
        return min((math.log(value) - math.log(self.low)) / self._span, 1.0)


class Sizes(Log):
    """Message sizes: powers of two, from the smallest to the largest there is."""

    def __init__(self, sizes):
        low, high = max(1, min(sizes)), max(1, max(sizes))
        super().__init__(low, high if high > low else low * 2, 2)


class LinearSizes(Linear):
    """Message sizes from 0, with ticks at round numbers of the largest unit."""

    def __init__(self, sizes):
        high = max(1, max(sizes))
        self.unit = max(unit for unit in (1, 2 ** 10, 2 ** 20, 2 ** 30) if unit <= high)
        super().__init__(high / self.unit)
        self.ticks = [tick * self.unit for tick in self.ticks]
        self.high *= self.unit


def figure_text(value, digits=3):
    """So many digits that count, without an exponent: for tables, where they stand below one another."""
    if value == 0:
        return "0"
    return "%.*f" % (max(0, digits - 1 - math.floor(math.log10(value) + 1e-9)), value)


def grouped(text):
    """From five digits on, thousands apart by a thin space."""
    whole, point, rest = text.partition(".")
    if len(whole) < 5:
        return text
    return "{:,}".format(int(whole)).replace(",", "\u2009") + point + rest


def number_text(value):
    """Three digits, without zeros that say nothing: for axes."""
    text = figure_text(value)
    return grouped(text.rstrip("0").rstrip(".") if "." in text else text)


def size_text(count):
    for unit, name in ((2 ** 30, "GiB"), (2 ** 20, "MiB"), (2 ** 10, "KiB")):
        if count >= unit:
            return "%s %s" % (number_text(count / unit), name)
    return "%d B" % count
