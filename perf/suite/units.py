"""Writes figures and sizes, in tables and beside axes. Pure."""

import math

SIZE_UNITS = ((2 ** 30, "GiB"), (2 ** 20, "MiB"), (2 ** 10, "KiB"), (1, "B"))


def figure_text(value, digits=3):
    """Writes a value with so many significant digits and without an exponent: for tables, where
    values stand below one another."""
    if value == 0:
        return "0"
    return "%.*f" % (max(0, digits - 1 - math.floor(math.log10(value) + 1e-9)), value)


def grouped(text):
    """Separates thousands by a thin space, from five digits on."""
    whole, point, rest = text.partition(".")
    if len(whole) < 5:
        return text
    return "{:,}".format(int(whole)).replace(",", "\u2009") + point + rest


def number_text(value):
    """Writes three digits, without zeros at the end: for axes."""
    text = figure_text(value)
    return grouped(text.rstrip("0").rstrip(".") if "." in text else text)


def size_text(count):
    unit, name = next(one for one in SIZE_UNITS if one[0] <= max(1, count))
    return "%s %s" % ("%d" % count if unit == 1 else number_text(count / unit), name)
