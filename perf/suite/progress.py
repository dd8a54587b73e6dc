"""Shows the progress of a sweep on stderr: one line that is rewritten on a terminal, one line a
run elsewhere."""

import sys
import time


def duration(seconds):
    seconds = int(seconds + 0.5)
    if seconds < 3600:
        return "%d:%02d" % (seconds // 60, seconds % 60)
    return "%d:%02d:%02d" % (seconds // 3600, seconds // 60 % 60, seconds % 60)


def line(done, total, elapsed, title):
    left = ", about %s left" % duration(elapsed / done * (total - done)) if done else ""
    return "run %d of %d, %s elapsed%s: %s" % (min(done + 1, total), total, duration(elapsed), left,
                                               title)


class Progress:
    def __init__(self, total, stream=sys.stderr, clock=time.monotonic):
        self._total, self._stream, self._clock = total, stream, clock
        self._begin = None

    def begin(self, done, title):
        # what went before (a boot) says nothing about the runs
        self._begin = self._begin or self._clock()
        text = line(done, self._total, self._clock() - self._begin, title)
        self._say("\r%s\x1b[K" % text if self._stream.isatty() else text + "\n")

    def note(self, text):
        """Writes a line that stays."""
        self._say(("\r\x1b[K" if self._stream.isatty() else "") + text + "\n")

    def end(self, done):
        self.note("%d of %d runs in %s" %
                  (done, self._total, duration(self._clock() - (self._begin or self._clock()))))

    def _say(self, text):
        self._stream.write(text)
        self._stream.flush()
