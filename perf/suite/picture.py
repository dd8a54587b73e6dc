#!/usr/bin/env python3
"""One plot of a result file as an SVG file of its own: picture.py RESULT.json PICTURE.svg [NUMBER].

NUMBER counts the plots of the report, from 1 (the default). The same figures give the same
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
        sys.exit("picture.py: %d is not one of the %d plots of %s" %
                 (number, len(plots), sys.argv[1]))
    with open(sys.argv[2], "w", encoding="utf-8") as stream:
        stream.write(charts.draw(plots[number - 1]) + "\n")


if __name__ == "__main__":
    main()
