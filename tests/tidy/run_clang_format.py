#!/usr/bin/env python3
"""Looks at every C++ file of ours with clang-format and changes none: run_clang_format.py
[--clang-format PROGRAM] [FILE...]."""

import argparse
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import tree  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clang-format", default="clang-format")
    parser.add_argument("files", nargs="*")
    args = parser.parse_args()
    files = [path for path in tree.paths(ROOT) if path.endswith(tree.CPP_SUFFIXES)
             and (not args.files or path in args.files)]
    if not files:
        print("clang_format: no such source")
        return 1
    command = [args.clang_format, "--dry-run", "-Werror", "--style=file", *files]
    answer = subprocess.run(command, capture_output=True, check=False, cwd=ROOT)
    findings = [line for line in answer.stderr.decode(errors="replace").splitlines()
                if ": error:" in line]
    print("\n".join(findings) or answer.stderr.decode(errors="replace"))
    wrong = sorted({line.split(":")[0] for line in findings})
    print("clang_format: %d files, %d to format: %s" % (len(files), len(wrong), " ".join(wrong)))
    return 0 if answer.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
