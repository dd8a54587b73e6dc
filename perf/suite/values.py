"""Parses the values of a sweep's command line, and refuses wrong ones with the range."""

import argparse

PAUSE_MAX_MS = 60000
UNITS = {"K": 2 ** 10, "M": 2 ** 20, "G": 2 ** 30}
SIZE_MAX = 2 ** 34


def size(text):
    """Parses a size: 8, 64K, 1M."""
    unit = UNITS.get(text[-1:].upper(), 1)
    digits = text[:-1] if unit > 1 else text
    if not digits.isdecimal() or not 1 <= int(digits) * unit <= SIZE_MAX:
        raise argparse.ArgumentTypeError("%s is not a size of 1..16G (K, M, G are powers of 1024)" %
                                         text)
    return int(digits) * unit


def number(low, high):
    def parse(text):
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError("%s is not a number of %d..%d" % (text, low, high))
        return int(text)
    return parse


def numbers(low, high):
    """Returns a parser of comma lists, in which "default" is None."""
    one = number(low, high)

    def parse(text):
        return [None if word == "default" else one(word) for word in text.split(",")]
    return parse


def pauses(text):
    """Parses a comma list of milliseconds. Returns microseconds."""
    for word in text.split(","):
        if not word.replace(".", "", 1).isdecimal() or float(word) > PAUSE_MAX_MS:
            raise argparse.ArgumentTypeError("%s is not a number of 0..%d milliseconds" %
                                             (word, PAUSE_MAX_MS))
    return [round(1000 * float(word)) for word in text.split(",")]


def names(allowed):
    def parse(text):
        for word in text.split(","):
            if word not in allowed:
                raise argparse.ArgumentTypeError("%s is not one of %s" % (word, ", ".join(allowed)))
        return text.split(",")
    return parse


def rate(text):
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < 10000:
        raise argparse.ArgumentTypeError("%s is not a number of GB/s above 0, below 10000" % text)
    return value
