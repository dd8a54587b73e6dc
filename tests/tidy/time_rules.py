"""The rules for times: the product has them in one header, and the table of one page says what each
is for. Each yields (path, line, rule, what)."""

import itertools
import re

import tables

HEADER = "src/base/timeouts.h"
PAGE = "engine/README.md"
SETTINGS_PAGE = "plugin/REFERENCE.md"
# The software fabric has times of its own, as hardware does.
MODULES = tuple(module for module in tables.PRODUCT_MODULES if module != "src/") + tuple(
    module + "/" for module in tables.ARROWS
    if module.startswith("src/") and module != "src/soft")
# A constant whose name ends with a unit, except conversions, whose names begin with one (kNsPerMs),
# and a number of std::chrono.
TIME = re.compile(
    r"\bconstexpr\b[^;({]*?\b(k(?!(?:Ns|Us|Ms)Per)\w*?(?:[NUM]s|[a-z]S|Seconds)(?:Min|Max|Usual)?)"
    r"\s*[={]|\bchrono::\w*seconds(?: +\w+)?\s*[({]\s*[1-9]")
CONSTANT = re.compile(r"(?m)^inline constexpr [\w:]+ (k\w+) = ([^;]+);")
ROW = re.compile(r"\| `(k\w+|NCCL_\w+)` \| ([^|]+) \|")
UNITS_NS = {"Ns": 1, "Us": 10**3, "Ms": 10**6, "Seconds": 10**9}


def outside_header(source):
    """Times that lie in another file than the header."""
    if source.path == HEADER or not source.path.startswith(MODULES):
        return
    for found in TIME.finditer(source.statements):
        line = source.statements.count("\n", 0, found.end()) + 1
        what = "%s belongs into %s" % (found.group(1) or "this time", HEADER)
        yield source.path, line, "time-outside", what


def constants(text):
    """Returns (name, nanoseconds) for every constant of the header, in its order."""
    known = {"kNsPerMs": 10**6, "kNsPerSecond": 10**9}
    found = []
    for name, value in CONSTANT.findall(text):
        known[name] = eval(value.replace("'", ""), {}, known)  # of our own header
        unit = next(unit for unit in UNITS_NS if name.endswith(unit))
        found.append((name, known[name] * UNITS_NS[unit]))
    return found


def as_text(ns):
    """Returns a time as the page writes it."""
    unit, size = next((each for each in (("s", 10**9), ("ms", 10**6), ("us", 10**3))
                       if ns >= each[1]), ("ns", 1))
    return "%.15g %s" % (ns / size, unit)


def page_table(texts):
    """The page has the header's constants in order, and settings as their own page has them. texts:
    path -> text."""
    if HEADER not in texts:
        return
    rows = ROW.findall(texts.get(PAGE, ""))
    own = [row for row in rows if row[0].startswith("k")]
    wanted = [(name, as_text(ns)) for name, ns in constants(texts[HEADER])]
    for row, right in itertools.zip_longest(own, wanted, fillvalue=("no row", "-")):
        if row != right:
            what = "%s, %s stands where %s, %s belongs" % (*row, *right)
            yield PAGE, 1, "time-table", what
            return
    for row in rows:
        if row not in own and "| `%s` | %s |" % row not in texts.get(SETTINGS_PAGE, ""):
            yield PAGE, 1, "time-table", "%s is not %s in %s" % (*row, SETTINGS_PAGE)
