"""A small tree of files made for one self test."""

import contextlib
import os
import tempfile


@contextlib.contextmanager
def small_tree(files):
    """Yields the root of a folder with these files; each .cc is named in a CMake file."""
    listed = "".join("  %s\n" % path for path in files if path.endswith(".cc"))
    with tempfile.TemporaryDirectory() as root:
        for path, text in {"CMakeLists.txt": "add_library(all\n%s)\n" % listed, **files}.items():
            place = os.path.join(root, path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w", encoding="utf-8") as stream:
                stream.write(text)
        yield root
