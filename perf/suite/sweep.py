#!/usr/bin/env python3
"""Runs the sweeps of perf/run, and writes one result file and one report for each."""

import importlib.util
import os
import signal
import sys
import time

sys.dont_write_bytecode = True
import arguments
import lab_place
import places
import plan
import results
import tables
from collect import Collection
from one_line import check_folder
from progress import Progress

EXIT_FAILED, EXIT_USAGE, EXIT_BAD, EXIT_CANNOT, EXIT_INTERRUPTED = 1, 2, 3, 77, 130
PLACES = {"soft": places.Soft, "model": places.Model, "hosts": places.Hosts, "lab": lab_place.Lab}


def say(text):
    print("perf/run: " + text, file=sys.stderr, flush=True)


def can_draw():
    """Returns whether a report can be drawn; asked before anything is measured for it."""
    if importlib.util.find_spec("matplotlib"):
        return True
    say("a report needs matplotlib, which %s does not have "
        "(Debian: python3-matplotlib, for /usr/bin/python3)" % sys.executable)
    return False


def prefix_of(options, name):
    prefix = options.out or os.path.join(places.ROOT, "build/perf",
                                         "%s-%s" % (name, time.strftime("%Y%m%d-%H%M%S")))
    os.makedirs(os.path.dirname(os.path.abspath(prefix)), exist_ok=True)
    return prefix


def write_page(path, text):
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    print(os.path.relpath(path))


def compared(options):
    before, after = (results.read(path) for path in options.compare)
    if options.dry_run:
        return 0
    if not can_draw():
        return EXIT_CANNOT
    import compare  # loads matplotlib, which --help and --dry-run do without
    text = compare.of(before, after)
    print(compare.table_text(before, after))
    if compare.unmatched(before, after):
        say(compare.unmatched_text(before, after))
    write_page(prefix_of(options, "compare") + ".html", text)
    return 0


def reported(options):
    value = results.read(options.report)
    if options.dry_run:
        return 0
    if not can_draw():
        return EXIT_CANNOT
    import report
    write_page(prefix_of(options, "report") + ".html", report.of(value))
    return 0


def sweep(place, runs, collection, options):
    """Runs the sweep. Returns how many runs failed."""
    progress = Progress(len(runs))
    failed = []
    done = 0

    def begin(number):
        progress.begin(number, runs[number].title())

    def end(number, outcome, error):
        nonlocal done
        done += 1
        if error is None:
            try:
                collection.add(runs[number], outcome, options.ceiling)
                return
            except results.ResultError as mistake:
                error = str(mistake)
        failed.append(runs[number].title())
        progress.note("%s: %s" % (runs[number].title(), error))

    if place.waits_for:
        progress.note("waiting for " + place.waits_for)
    try:
        place.run_all(runs, begin, end)
    except KeyboardInterrupt:
        collection.note("interrupted after %d of %d runs" % (done, len(runs)))
        progress.note("interrupted")
        raise
    finally:
        progress.end(done)
        if failed:
            collection.note("failed: " + "; ".join(failed))
    return len(failed)


def write_all(collection, options, name):
    value = collection.value()
    if value is None:
        say("no run has a result, so nothing was written")
        return False
    import report
    prefix = prefix_of(options, name)
    print(tables.summary(value) + "\n")
    results.write(prefix + ".json", value)
    print(os.path.relpath(prefix + ".json"))
    write_page(prefix + ".html", report.of(value))
    return True


def measured(parser, options):
    name = arguments.place_of(options)
    runs = plan.runs(arguments.lists_of(parser, options))
    if options.out:
        check_folder(parser, "--out %s" % options.out,
                     os.path.dirname(os.path.abspath(options.out)))
    build = os.path.abspath(options.build or os.path.join(places.ROOT, "build/release"))
    place = PLACES[name](options, build)
    if options.dry_run:
        print("\n".join(place.show(runs)))
        return 0
    if not can_draw():
        return EXIT_CANNOT
    if not os.path.exists(place.program):
        say("%s is not built; perf/run builds it%s" %
            (os.path.relpath(place.program), " where the tree has it" if name == "model" else ""))
        return EXIT_CANNOT
    collection = Collection("perf/run", sys.argv[1:], options.note)
    code = 0
    try:
        code = EXIT_FAILED if sweep(place, runs, collection, options) else 0
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except lab_place.LabError as error:
        say("--lab: %s" % error)
        return EXIT_CANNOT
    if not write_all(collection, options, name):
        return code or EXIT_FAILED
    if collection.wrong():
        say("a run had WRONG DATA; the report shows which")
        return EXIT_BAD
    return code


def stop(number, _):
    raise KeyboardInterrupt(signal.Signals(number).name)


def main():
    parser = arguments.parser_of()
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        if options.compare:
            return compared(options)
        if options.report:
            return reported(options)
        return measured(parser, options)
    except results.ResultError as error:
        say(str(error))
        return EXIT_USAGE
    except OSError as error:
        say("%s: %s" % (error.filename, error.strerror))
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
