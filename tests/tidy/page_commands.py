#!/usr/bin/env python3
"""Runs the commands of the pages: page_commands.py BUILD [PAGE...].

Every block of a page that begins with ```sh is a script. The block marked "set-up" comes first; the
others run after it, in order, each in a shell of its own. They run in a folder of links to the tree
whose build/release holds only what the set-up of the page has built there: a cmake of ours stands
in for the real one and links each target from BUILD, so a command whose program the set-up forgets
fails here as it would for a reader. Blocks with another mark are left out, and the reasons printed.
"""

import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import tree  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Seconds for a block. The longest take a tenth of it, so only what hangs ends by the clock.
TIME_S_MAX = {"": 900, "set-up": 900, "long": 3600}
LEFT_OUT = {
    "hosts": "needs several real hosts (tests/lab/suites/launch_test.py runs those of "
             "perf/README.md)",
    "lab": "boots virtual machines",
    "nccl": "needs NCCL and its frameworks",
    "debugger": "needs a terminal with a debugger",
    "build": "builds a tree of its own",
    "gpu": "needs a GPU",
    "change": "changes the source tree",
    "speed": "judges bandwidth, so it wants an idle machine",
    "tests": "runs the whole test suite",
    "long": "takes minutes (tests/run --full runs it)",
}
BLOCK = re.compile(r"(?ms)^```sh *([\w-]*)\n(.*?)^```$")

# The reader's cmake: configures nothing, links what is built, installs elsewhere.
CMAKE = r'''#!/usr/bin/env python3
import os, subprocess, sys
BUILD, HERE = %(build)r, %(here)r
arguments = sys.argv[1:]

def link(path):
    place = os.path.join(HERE, "build", "release", os.path.relpath(path, BUILD))
    os.makedirs(os.path.dirname(place), exist_ok=True)
    if not os.path.lexists(place):
        os.symlink(path, place)

def built(target):
    found = []
    for folder, folders, names in os.walk(BUILD):
        folders[:] = [name for name in folders if name not in ("CMakeFiles", "Testing")]
        wanted = (target, "lib%%s.so" %% target)
        found += [os.path.join(folder, name) for name in names if name in wanted]
    return found

if "--install" in arguments:
    arguments[arguments.index("--install") + 1] = BUILD
    sys.exit(subprocess.call([%(cmake)r] + arguments, env=dict(os.environ, DESTDIR=%(installed)r)))
if "--build" in arguments and "--target" not in arguments:
    for name in os.listdir(BUILD):
        if name != "Testing":
            link(os.path.join(BUILD, name))
elif "--build" in arguments:
    for target in arguments[arguments.index("--target") + 1:]:
        files = built(target)
        for file in files:
            link(file)
        if not files:
            sys.exit("no program %%s in %%s" %% (target, BUILD))
elif "--preset" not in arguments:
    sys.exit("page_commands.py does not know: cmake " + " ".join(arguments))
'''


class Block:
    def __init__(self, page, line, mark, script):
        self.page, self.line, self.mark, self.script = page, line, mark, script

    def __str__(self):
        return "%s:%d" % (self.page, self.line)


def blocks_of(page, text):
    return [Block(page, text.count("\n", 0, found.start()) + 2, found.group(1), found.group(2))
            for found in BLOCK.finditer(text)]


def is_left_out(block):
    if block.mark == "long":
        return os.environ.get("MESH_BRIEF") != "0"
    return block.mark in LEFT_OUT


def prepare(folder, tools, build):
    """The reader's tree in one empty folder, stand-ins and a home in another; returns the
    environment of the commands."""
    for name in os.listdir(ROOT):
        if name == ".gitignore":  # git follows no link there
            shutil.copy(os.path.join(ROOT, name), folder)
        elif name != "build":
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
    os.makedirs(os.path.join(folder, "build", "release"))
    cmake = os.path.join(tools, "cmake")
    with open(cmake, "w", encoding="utf-8") as file:
        file.write(CMAKE % {"build": build, "here": folder, "installed": tools,
                            "cmake": shutil.which("cmake")})
    # The test judges the commands and not the machine's packages: it installs nothing.
    with open(os.path.join(tools, "dpkg-query"), "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho installed\n")
    for name in ("cmake", "dpkg-query"):
        os.chmod(os.path.join(tools, name), 0o755)
    keep = {name: value for name, value in os.environ.items()
            if not re.match(r"(NCCL|MESH|RANK|WORLD_SIZE|OMPI|SLURM|PMI)", name)}
    return dict(keep, PATH=tools + ":" + os.environ["PATH"], HOME=tools, NCCL_CONF_FILE="/dev/null")


def run(block, folder, environment):
    """Returns whether the script ended well; prints its output if not. Stops at the first command
    that fails, and says which."""
    script = "set -eE -o pipefail\ntrap 'echo \"FAILED: $BASH_COMMAND\"' ERR\n" + block.script
    with subprocess.Popen(["bash", "-c", script], cwd=folder, env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace",
                          start_new_session=True) as process:
        try:
            said, _ = process.communicate(timeout=TIME_S_MAX[block.mark])
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said = process.communicate()[0] + "\nnot done after %d s" % TIME_S_MAX[block.mark]
    with contextlib.suppress(ProcessLookupError):  # processes that a failed script has left
        os.killpg(process.pid, signal.SIGKILL)
    if process.returncode != 0:
        print("%s: status %d\n%s" % (block, process.returncode, said[-2000:]))
    return process.returncode == 0


def run_page(page, build):
    """Returns (blocks run, blocks failed, blocks left out)."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        blocks = blocks_of(page, file.read())
    for block in blocks:
        if block.mark not in LEFT_OUT and block.mark not in ("", "set-up"):
            sys.exit("%s: a block is marked %s, which is none of %s" %
                     (block, block.mark, ", ".join(["set-up", *LEFT_OUT])))
    wanted = [block for block in blocks if not is_left_out(block)]
    failed = []
    with tempfile.TemporaryDirectory(prefix="page-") as folder, tempfile.TemporaryDirectory(
        prefix="tools-") as tools:
        environment = prepare(folder, tools, build)
        for block in wanted:
            before = cpu_seconds()
            if not run(block, folder, environment):
                failed.append(block)
            print("%s: %.1f s of CPU" % (block, cpu_seconds() - before), flush=True)
    return wanted, failed, [block for block in blocks if is_left_out(block)]


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main():
    build = os.path.abspath(sys.argv[1])
    pages = sys.argv[2:] or [path for path in tree.paths(ROOT) if path.endswith(".md")]
    counts, failures, omitted = 0, [], []
    for page in pages:
        wanted, failed, left = run_page(page, build)
        counts += len(wanted)
        failures += failed
        omitted += left
    print("left out:")
    for block in omitted:
        print("  %s: %s: %s" % (block, LEFT_OUT[block.mark], block.script.splitlines()[0]))
    print("%d blocks of commands run, %d failed, %d left out; %.0f s of CPU" %
          (counts, len(failures), len(omitted), cpu_seconds()))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
