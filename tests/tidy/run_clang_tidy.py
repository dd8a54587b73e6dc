#!/usr/bin/env python3
"""Runs clang-tidy over every .cc of ours that a build directory compiles and prints the findings;
exit status 1 if there is any.

run_clang_tidy.py BUILD [--clang-tidy PROGRAM] [--jobs N] [--newest N] [FILE...]: FILE, from the
root, narrows it down; with --newest only the N files that the last commits touched are looked at.
A file found clean is not looked at again until it, a header of ours it reaches, its command,
.clang-tidy or the program changes: BUILD/clang_tidy_cache holds one empty file per clean state.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
INCLUDE = re.compile(rb'(?m)^\s*#\s*include\s*["<]([^">]+)[">]')
# g++'s flags reach clang, which must not stumble over a warning it has not heard of.
EXTRA = ["--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-unused-command-line-argument",
         # flags of the compiler's that clang does not have
         "--extra-arg=-Wno-ignored-optimization-argument"]


# In the second ring of the tests. A number and not a time: a fast machine looks at no more files
# than a slow one.
BRIEF_FILES = 10


class Headers:
    """Holds the headers of ours that each file reaches; each file is read once."""

    def __init__(self):
        self.data = {}
        self.direct = {}

    def read(self, path):
        if path not in self.data:
            with open(path, "rb") as stream:
                self.data[path] = stream.read()
            self.direct[path] = [each for each in map(self._place, INCLUDE.findall(self.data[path]))
                                 if each]
        return self.data[path]

    @staticmethod
    def _place(name):
        name = os.fsdecode(name)
        for folder in (ROOT, os.path.join(ROOT, "include")):
            path = os.path.normpath(os.path.join(folder, name))
            if os.path.isfile(path):
                return path
        return None

    def reached(self, path):
        """Returns path and every header of ours below it, sorted."""
        seen, waiting = set(), [path]
        while waiting:
            each = waiting.pop()
            if each not in seen:
                seen.add(each)
                self.read(each)
                waiting += self.direct[each]
        return sorted(seen)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--clang-tidy", default="clang-tidy")
    parser.add_argument("--jobs", type=int, default=2)
    brief = os.environ.get("MESH_BRIEF") == "1"
    parser.add_argument("--newest", type=int, default=BRIEF_FILES if brief else None,
                        help="look at the N files that changed last (all; %d where MESH_BRIEF=1)" %
                        BRIEF_FILES)
    parser.add_argument("files", nargs="*")
    return parser.parse_args()


def commands(build, wanted):
    """Returns {path: its compile command} for our sources, without what lies in the build
    directory."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as stream:
        entries = json.load(stream)
    found = {}
    for entry in entries:
        path = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
        inside = path.startswith(ROOT + os.sep) and not path.startswith(os.path.abspath(build) +
                                                                        os.sep)
        if inside and os.path.isfile(path) and (not wanted
                                                or os.path.relpath(path, ROOT) in wanted):
            found[path] = entry.get("command") or " ".join(entry["arguments"])
    return found


def state_of(path, command, headers, program_version):
    digest = hashlib.sha256(program_version)
    with open(os.path.join(ROOT, ".clang-tidy"), "rb") as stream:
        digest.update(stream.read())
    digest.update(command.encode() + "\0".join(EXTRA).encode())
    for each in headers.reached(path):
        digest.update(each.encode() + b"\0" + headers.read(each) + b"\0")
    return digest.hexdigest()


def changed_last_first(paths):
    """Returns the paths by the last commit that touched them, uncommitted ones first; by name if
    git does not know."""
    ages = {}
    try:
        log = subprocess.run(["git", "log", "--format=", "--name-only"], capture_output=True,
                             check=False, cwd=ROOT).stdout
    except FileNotFoundError:
        log = b""
    for name in os.fsdecode(log).split():
        ages.setdefault(os.path.join(ROOT, name), len(ages) + 1)
    return sorted(paths, key=lambda path: (ages.get(path, 0), path))


def look_at(program, build, path):
    """Returns (exit status, findings) of one file."""
    command = [program, "-p", build, "--quiet", *EXTRA, path]
    answer = subprocess.run(command, capture_output=True, check=False, cwd=ROOT)
    text = answer.stdout.decode(errors="replace")
    if answer.returncode != 0 and not text.strip():  # it fell over before it found anything
        text = answer.stderr.decode(errors="replace")
    return answer.returncode, text


def main():
    args = arguments()
    build = os.path.abspath(args.build)
    sources = commands(build, set(args.files))
    if not sources:
        print("clang_tidy: %s/compile_commands.json names no such source of ours" % build)
        return 1
    version = subprocess.run([args.clang_tidy, "--version"], capture_output=True, check=True).stdout
    cache = os.path.join(build, "clang_tidy_cache")
    os.makedirs(cache, exist_ok=True)
    headers = Headers()
    states = {path: os.path.join(cache, state_of(path, command, headers, version)) for path,
              command in sources.items()}
    newest = changed_last_first(states)[:args.newest]
    stale = [path for path in newest if not os.path.exists(states[path])]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        answers = pool.map(lambda path: look_at(args.clang_tidy, build, path), stale)
        for path, (status, text) in zip(stale, answers):
            if status == 0:
                open(states[path], "wb").close()
                continue
            failed += 1
            print("%s:\n%s" % (os.path.relpath(path, ROOT),
                               text.replace(ROOT + os.sep, "").strip()), flush=True)
    print("clang_tidy: %d files, %d looked at, %d with findings" %
          (len(newest), len(stale), failed))
    if len(newest) != len(sources):
        print("clang_tidy: %d files are left out, those changed longest ago" %
              (len(sources) - len(newest)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
