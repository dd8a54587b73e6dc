"""The files of the project: what a commit would contain."""

import os
import subprocess

CPP_SUFFIXES = (".h", ".cc", ".c", ".hpp", ".cpp", ".cxx")
SCRIPT_SUFFIXES = (".py", ".sh")
SKIPPED_FOLDERS = {"build", ".git", ".cache", "__pycache__"}
NOT_OURS = "tests/fuzz/corpus/"  # inputs of fuzzers: bytes as a machine found them


def _from_git(root):
    """Returns the tracked and the unignored files; None if root is not the top of a git
    checkout."""
    if not os.path.exists(os.path.join(root, ".git")):
        return None
    command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        answer = subprocess.run(command, capture_output=True, check=False)
    except OSError:
        return None
    return answer.stdout.decode().split("\0")[:-1] if answer.returncode == 0 else None


def _from_walk(root):
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return found


def paths(root):
    """Returns every file, relative to root, sorted, without compiled Python and deleted files."""
    found = _from_git(root)
    if found is None:
        found = _from_walk(root)
    wanted = (path for path in set(found) if not path.endswith(".pyc")
              and not path.startswith(NOT_OURS))
    return sorted(path for path in wanted if os.path.isfile(os.path.join(root, path)))


class File:
    """One text file: path, text, lines without their ends."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.split("\n")
        if self.lines[-1] == "":
            self.lines.pop()

    @property
    def is_cpp(self):
        return self.path.endswith(CPP_SUFFIXES)

    @property
    def is_header(self):
        return self.path.endswith((".h", ".hpp"))

    @property
    def is_cmake(self):
        return self.path.endswith((".cmake", "CMakeLists.txt"))

    @property
    def is_script(self):
        name = os.path.basename(self.path)
        return name.endswith(SCRIPT_SUFFIXES) or ("." not in name.lstrip(".")
                                                  and self.text.startswith("#!"))

    @property
    def is_code(self):
        return self.is_cpp or self.is_script or self.is_cmake


def read(root, path):
    """Returns the file, or None if it is not text."""
    with open(os.path.join(root, path), "rb") as stream:
        data = stream.read()
    if b"\0" in data:
        return None
    try:
        return File(path, data.decode())
    except UnicodeDecodeError:
        return None
