"""A command line whose mistakes are one line on stderr, as those of the other tools are: the
program, the mistake, and where all options are. The exit status is 2."""

import argparse
import os
import tempfile


class Parser(argparse.ArgumentParser):
    def __init__(self, *arguments, **options):
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*arguments, allow_abbrev=False, **options)

    def error(self, message):
        self.exit(2, "%s: %s; --help has all options\n" % (self.prog, message))


def check_folder(parser, what, folder):
    """Refuses a folder that cannot be made or written, before a run takes its time."""
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        parser.error("%s: %s; wanted: a folder that can be written" % (what, error.strerror))
