"""The rule for times: the product has them in one header. It yields (path, line, rule, what)."""

import re

import tables

HEADER = "src/base/timeouts.h"
PAGE = "engine/README.md"
# The software fabric has times of its own, as hardware does.
MODULES = tuple(module for module in tables.PRODUCT_MODULES if module != "src/") + tuple(
    module + "/" for module in tables.ARROWS
    if module.startswith("src/") and module != "src/soft")
# A constant whose name ends with a unit, except conversions, whose names begin with one (kNsPerMs),
# and a number of std::chrono.
TIME = re.compile(
    r"\bconstexpr\b[^;({]*?\b(k(?!(?:Ns|Us|Ms)Per)\w*?(?:[NUM]s|[a-z]S|Seconds)(?:Min|Max|Usual)?)"
    r"\s*[={]|\bchrono::\w*seconds(?: +\w+)?\s*[({]\s*[1-9]")


def outside_header(source):
    """Times that lie in another file than the header."""
    if source.path == HEADER or not source.path.startswith(MODULES):
        return
    for found in TIME.finditer(source.statements):
        line = source.statements.count("\n", 0, found.end()) + 1
        what = "%s belongs into %s" % (found.group(1) or "this time", HEADER)
        yield source.path, line, "time-outside", what
