#!/usr/bin/env python3
"""Writes one plot of a result file to an SVG file.

Usage: picture.py RESULT.json PICTURE.svg [NUMBER]

NUMBER is the place of the plot in the report, from 1 (the default). Equal figures give equal
bytes."""

import sys

sys.dont_write_bytecode = True
import charts
import figures
import report
import results


def plots_of(result):
    found = []
    for title, series in figures.families(result["series"]):
        source = [figures.Source(series, figures.names_of(series))]
        label = report.label_of(result)
        found += figures.bandwidth_plots(title, label, source) + figures.latency_plots(title, label,
                                                                                       source)
    return found


def main():
    if len(sys.argv) not in (3, 4) or not (sys.argv[3:] or ["1"])[0].isdecimal():
        sys.exit(__doc__)
    plots, number = plots_of(results.read(sys.argv[1])), int((sys.argv[3:] or ["1"])[0])
    if not 1 <= number <= len(plots):
        sys.exit("picture.py: there is no plot %d among the %d plots of %s" %
                 (number, len(plots), sys.argv[1]))
    with open(sys.argv[2], "w", encoding="utf-8") as stream:
        stream.write(charts.draw(plots[number - 1]) + "\n")


if __name__ == "__main__":
    main()
