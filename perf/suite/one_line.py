"""A command line whose mistakes are one line on stderr, as those of the other tools are: the
program, the mistake, and where all options are. The exit status is 2."""

import argparse


class Parser(argparse.ArgumentParser):
    def __init__(self, *arguments, **options):
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*arguments, allow_abbrev=False, **options)

    def error(self, message):
        self.exit(2, "%s: %s; --help has all options\n" % (self.prog, message))
