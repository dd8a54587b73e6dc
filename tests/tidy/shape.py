"""The shape of the whole house: figures over all functions, classes, headers and comments.

Each figure has the worst place beside it. tables.FIGURES has what each may be.
"""

import collections
import re

import tables

Figure = collections.namedtuple("Figure", "name value place")
CHECKED = re.compile(r"\bD?CHECK(?:_\w+)?\s*\(")


def percentile_90(values):
    """Returns the smallest value that nine tenths of the values do not exceed."""
    ordered = sorted(values)
    return ordered[(9 * len(ordered) + 9) // 10 - 1] if ordered else 0


def figures(files, sources, scan, violations):
    """Returns every Figure. files: every tree.File; sources: a rules.Source per C++ path; scan:
    cpp_text.scan()'s; violations: those of the rules."""
    bodies = [each for each in scan.functions if each.length]
    lengths = {"%s:%d" % (each.path, each.line): each.length for each in bodies}
    file_lengths = {file.path: len(file.lines) for file in files if file.is_cpp or file.is_script}
    product = [each for each in sources.values() if each.path.startswith(tables.PRODUCT_MODULES)]
    small = [each.path for each in product
             if each.file.is_header and len(each.file.lines) < tables.SMALL_HEADER_LINES]
    forwarders = sorted(_forwarders(sources, scan))
    rules_broken = collections.Counter(rule for _, _, rule, _ in violations)
    return [
        Figure("function lines p90", percentile_90(each.length for each in bodies if each.is_named),
               ""),
        _largest("longest function", lengths),
        Figure("file lines p90", percentile_90(file_lengths.values()), ""),
        _largest("largest file", file_lengths),
        _largest("files of one class", _class_files(scan)),
        _largest("public methods of one class", _public_methods(scan)),
        Figure("small headers", len(small), " ".join(small)),
        Figure("forwarders of Provider", len(forwarders), " ".join(forwarders)),
        Figure("riddles", rules_broken["riddle"], ""),
        Figure("times outside one header", rules_broken["time-outside"], ""),
        Figure("assertions", sum(len(CHECKED.findall(each.statements)) for each in product), ""),
    ]


def _largest(name, values):
    place = max(values, key=values.get, default="")
    return Figure(name, values.get(place, 0), place)


def _class_files(scan):
    """Returns for each class the number of files with methods of it, besides its own."""
    found = collections.defaultdict(set)
    for function in scan.functions:
        if function.owner and function.length:
            if function.path not in scan.bodies.get(function.owner, ()):
                found[function.owner].add(function.path)
    return {owner: len(paths) for owner, paths in found.items()}


def _public_methods(scan):
    """Returns for each class of the product the number of its public methods, without constructors,
    destructor and operators."""
    counts = collections.Counter()
    for function in scan.functions:
        special = function.name.startswith(("~", "operator", "__anon"))
        if (function.is_public and not special and function.name != function.owner.split("::")[-1]
                and function.path.startswith(tables.PRODUCT_MODULES)):
            counts[function.owner] += 1
    return counts


def _forwarders(sources, scan):
    """Returns the classes that pass nearly all calls of verbs::Provider on, each to a function of
    the same name."""
    calls = {function.name for function in scan.functions
             if function.is_public and function.owner.endswith("verbs::Provider")}
    passed = collections.defaultdict(set)
    for function in scan.functions:
        if function.name in calls and function.length:
            lines = sources[function.path].statements.split("\n")
            body = "\n".join(lines[function.name_line - 1:function.line - 1 + function.length])
            if re.search(r"(\.|->)%s\(" % function.name, body):
                passed[function.owner].add(function.name)
    return {owner for owner, names in passed.items() if len(names) >= 0.8 * len(calls)}


def beyond(measured):
    """Returns the figures that are worse than they may be, as sentences."""
    for name, value, place in measured:
        limit = tables.FIGURES[name].limit
        if (value < limit) if name in tables.FIGURES_AT_LEAST else (value > limit):
            yield "%s: %d, the limit is %d%s" % (name, value, limit, place and ": " + place)


def table(measured):
    """Returns the lines of a table of all figures."""
    yield "%-28s %6s %6s %6s  %s" % ("figure", "value", "limit", "bar", "worst")
    for name, value, place in measured:
        yield ("%-28s %6d %6d %6d  %s" % (name, value, *tables.FIGURES[name], place[:60])).rstrip()
