"""Reads callgrind's output and tells our own code from the rest.

Callgrind is run with --separate-callers: every function appears once per chain of callers, as "function'caller'caller...". A record
belongs to the plugin when the driver's table of calls (NetAdapter) is among its callers; to the null fabric when one of its entry
points is in the chain; to a side by the driver's function that made the call (sender_isend, sender_test, receiver_irecv,
receiver_test). Only self costs are added up, so nothing is counted twice.
"""

import re
import subprocess

CALLERS = 24  # deeper than any way from the driver to a function of ours
CACHE_SIM = ["--cache-sim=yes", "--I1=32768,8,64", "--D1=49152,12,64", "--LL=33554432,16,64"]
ADAPTER = "mesh::driver::NetAdapter<"
FABRIC = "mesh::soft::"
CALL = re.compile(r"mesh::instructions::(sender_isend|sender_test|receiver_irecv|receiver_test)\(")
NAME = re.compile(r"\((\d+)\)(?: (.*))?$")


class Failure(Exception):
    """One line for the user."""


def command(out_file, cache_sim):
    options = ["valgrind", "--tool=callgrind", "--quiet", "--instr-atstart=no", "--collect-atstart=no",
               "--separate-callers=%d" % CALLERS, "--callgrind-out-file=%s" % out_file]
    return options + (CACHE_SIM if cache_sim else [])


def records(path):
    """Yields (chain of names, own function first; {event: self cost}) of every function in the file."""
    names, events, chain, costs, skip = {}, [], None, {}, False
    with open(path) as file:
        for line in file:
            line = line.rstrip("\n")
            if line.startswith("events: "):
                events = line.split()[1:]
            elif line.startswith("fn=") or line.startswith("cfn="):
                number, name = NAME.match(line.split("=", 1)[1]).groups()
                if name is not None:
                    names[number] = name
                if line.startswith("fn="):
                    if chain is not None:
                        yield chain, costs
                    chain, costs = names[number].split("'"), dict.fromkeys(events, 0)
            elif line.startswith("calls="):
                skip = True  # the next line is the callee's inclusive cost
            elif line and (line[0].isdigit() or line[0] in "+-*"):
                if not skip:
                    for event, value in zip(events, line.split()[1:]):
                        costs[event] += int(value)
                skip = False
    if chain is not None:
        yield chain, costs


def call_of(chain):
    for name in chain:
        found = CALL.match(name)
        if found:
            return found.group(1)
    return None


def own_costs(path):
    """{call: {function: {event: cost}}} of our own code: inside the plugin, outside the null fabric."""
    costs = {}
    for chain, events in records(path):
        if not any(events.values()):
            continue
        inside = any(name.startswith(ADAPTER) for name in chain[1:])
        if not inside and chain[0].startswith(("mesh::engine::", "mesh::plugin::")):
            raise Failure("a chain of callers of %s ends before the driver: %s" % (chain[0], chain[-1]))
        if not inside or any(name.startswith(FABRIC) for name in chain):
            continue
        call = call_of(chain)
        if call is None:
            raise Failure("nobody knows who called %s" % "'".join(chain))
        own = costs.setdefault(call, {}).setdefault(chain[0], {})
        for event, value in events.items():
            own[event] = own.get(event, 0) + value
    if not costs:
        raise Failure("callgrind counted nothing inside the plugin; are its symbols stripped?")
    return costs


def sum_of(costs, side, event_names):
    """The events added up over every call of a side."""
    return sum(events.get(event, 0) for call, functions in costs.items() if call.startswith(side)
               for events in functions.values() for event in event_names)


def check_valgrind():
    try:
        subprocess.run(["valgrind", "--version"], check=True, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        raise Failure("valgrind is not here; install it with: apt-get install valgrind") from None
