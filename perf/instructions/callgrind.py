"""Reads callgrind's output and tells our own code from the rest.

Callgrind is run with --separate-callers: every function appears once per chain of callers, as
"function'caller'caller...". A record belongs to the plugin when the driver's table of calls
(NetAdapter) is among its callers; to the null fabric when one of its entry points is in the chain;
to a side by the driver's function that made the call (sender_isend, sender_test, receiver_irecv,
receiver_test, receiver_flush). Only self costs are added up, so nothing is counted twice.
"""

import os
import re
import subprocess

CALLERS = 24  # deeper than any way from the driver to a function of ours
CACHE_SIM = ["--cache-sim=yes", "--I1=32768,8,64", "--D1=49152,12,64", "--LL=33554432,16,64"]
ADAPTER = "mesh::driver::NetAdapter<"
FABRIC = "mesh::soft::"
CALL = re.compile(r"mesh::instructions::"
                  r"(sender_isend|sender_test|receiver_irecv|receiver_test|receiver_flush)\(")
NAME = re.compile(r"\((\d+)\)(?: (.*))?$")


class Failure(Exception):
    """One line for the user."""


def command(out_file, cache_sim):
    options = ["valgrind", "--tool=callgrind", "--quiet", "--instr-atstart=no",
               "--collect-atstart=no",
               "--separate-callers=%d" % CALLERS, "--callgrind-out-file=%s" % out_file]
    return options + (CACHE_SIM if cache_sim else [])


def least_disturbed(out_file, repetitions):
    """Returns the file with the least counts of these repetitions but the first, whose file has the
    calls of the warm-up too. A thread of the engine that is put to sleep while it holds the loop
    makes the counted thread call test() in vain meanwhile, which only adds."""
    return min(("%s.%d" % (out_file, i) for i in range(2, repetitions + 1)), key=total_of)


def total_of(path):
    with open(path) as file:
        for line in file:
            if line.startswith("totals: "):
                return int(line.split()[1])
    raise Failure("callgrind wrote no total into %s" % os.path.basename(path))


class Record:
    """A function below one chain of callers."""

    def __init__(self, name, events):
        self.chain = name.split("'")  # own name first
        self.costs = dict.fromkeys(events, 0)  # self, by event
        self.calls = {}  # of others, by name


def records(path):
    """Yields every Record of the file."""
    names, events, record, callee, skip = {}, [], None, None, False
    with open(path) as file:
        for line in file:
            line = line.rstrip("\n")
            if line.startswith("events: "):
                events = line.split()[1:]
            elif line.startswith("fn=") or line.startswith("cfn="):
                number, name = NAME.match(line.split("=", 1)[1]).groups()
                if name is not None:
                    names[number] = name
                if line.startswith("cfn="):
                    callee = names[number].split("'")[0]
                    continue
                if record is not None:
                    yield record
                record = Record(names[number], events)
            elif line.startswith("calls="):
                skip = True  # the next line is the callee's inclusive cost
                record.calls[callee] = record.calls.get(callee,
                                                        0) + int(line[len("calls="):].split()[0])
            elif line and (line[0].isdigit() or line[0] in "+-*"):
                if not skip:
                    for event, value in zip(events, line.split()[1:]):
                        record.costs[event] += int(value)
                skip = False
    if record is not None:
        yield record


def call_of(chain):
    for name in chain:
        found = CALL.match(name)
        if found:
            return found.group(1)
    return None


class OwnCode:
    """The costs of what ran inside the plugin and outside the null fabric, and its calls of it."""

    def __init__(self, path):
        self.costs = {}  # {call: {function: {event: self cost}}}
        self.entries = {}  # {call: {entry of the fabric: calls}}
        for record in records(path):
            self._add(record)
        if not self.costs:
            raise Failure("callgrind counted nothing inside the plugin; are its symbols stripped?")

    def _add(self, record):
        chain = record.chain
        inside = any(name.startswith(ADAPTER) for name in chain[1:])
        if not inside and any(record.costs.values()) and chain[0].startswith(("mesh::engine::",
                                                                              "mesh::plugin::")):
            raise Failure("a chain of callers of %s ends before the driver: %s" %
                          (chain[0], chain[-1]))
        if not inside or any(name.startswith(FABRIC) for name in chain):
            return
        call = call_of(chain)
        if call is None:
            raise Failure("the call that led to %s is unknown" % "'".join(chain))
        own = self.costs.setdefault(call, {}).setdefault(chain[0], {})
        for event, value in record.costs.items():
            own[event] = own.get(event, 0) + value
        for callee, count in record.calls.items():
            if callee.startswith(FABRIC):
                name = callee[len(FABRIC):].split("(")[0]
                entries = self.entries.setdefault(call, {})
                entries[name] = entries.get(name, 0) + count

    def sum_of(self, side, event_names):
        """Returns the sum of events over all calls of a side ("sender", "receiver", "": both)."""
        return sum(events.get(event, 0) for call,
                   functions in self.costs.items() if call.startswith(side)
                   for events in functions.values() for event in event_names)

    def entries_of(self, side, entry):
        return sum(entries.get(entry, 0) for call,
                   entries in self.entries.items() if call.startswith(side))


def check_valgrind():
    try:
        subprocess.run(["valgrind", "--version"], check=True, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        raise Failure("valgrind is not installed; run apt-get install valgrind") from None
