"""Sweeps between the lab's hosts. All runs share one boot, so that our programs and others are
measured on one set of machines within minutes."""

import os
import re
import shlex
import signal
import subprocess
import tempfile

import perftest
import places
import results

BEGIN, FAILED = "suite: begin", "suite: failed"
BOOT_S_MAX = 240
EXIT_CANNOT = 77
HOST_LINE = re.compile(r"^(\w+): (suite: .*)$")


class LabError(Exception):
    """No lab is available here, or it was lost."""


class Lab(places.Place):
    waits_for = "the lab to boot"

    def __init__(self, options, build):
        self.topology, self.timeout_s = options.lab, options.timeout
        self.device = options.perftest_device or "rxe_mesh0"
        self.program = os.path.join(build, "perf/mesh_perf/mesh_perf")
        self.runner = os.path.join(places.ROOT, "tests/lab/run")

    def body(self, number, run, folder):
        """Returns the script of every host for one run; hosts that have no part in it go on."""
        if run.operation in places.plan.PERFTEST:
            work = "(\n%s\n)" % perftest.script(run, self.device, "%s %d" % (perftest.MARK, number))
        else:
            perf = shlex.join([self.program] + run.perf_arguments() +
                              ["--fabric", "rdma", "--timeout", str(self.timeout_s)])
            given = places.assignments(run.environment()) + [
                "MESH_RENDEZVOUS=${MESH_RENDEZVOUS%%:*}:%d" % (29500 + number)]
            if run.pair:
                given.append("WORLD_SIZE=2")
            # Rank 0 alone writes the file.
            work = "env %s %s --json %s/%d.json >&2" % (" ".join(given), perf, shlex.quote(folder),
                                                        number)
        part = "[ $RANK -ge 2 ] ||" if run.pair else ""
        return 'echo "%s %d $WORLD_SIZE"\n%s %s || echo "%s %d $?"' % (BEGIN, number, part, work,
                                                                       FAILED, number)

    def command(self, runs, folder):
        script = "\n".join(self.body(number, run, folder) for number, run in enumerate(runs))
        limit = min(86400, (self.timeout_s + 30) * len(runs))
        return [self.runner, self.topology, "--timeout", str(limit), "--share", folder, "--",
                "bash", "-c", script]

    def show(self, runs):
        return [shlex.join(self.command(runs, "FOLDER"))]

    def run_all(self, runs, begin, end):
        with tempfile.TemporaryDirectory() as folder:
            with subprocess.Popen(self.command(runs, folder), cwd=places.ROOT,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace") as lab:
                try:
                    self._follow(lab, runs, folder, (begin, end))
                except BaseException:
                    lab.send_signal(signal.SIGTERM)  # it cleans up behind itself
                    raise

    def _follow(self, lab, runs, folder, calls):
        begin, end = calls
        now, said, lines, at = -1, [], {}, {}
        for line in lab.stdout:
            found = HOST_LINE.match(line.rstrip("\n"))
            if found and found.group(2).startswith(BEGIN):
                number, hosts = map(int, found.group(2)[len(BEGIN):].split())
                at[found.group(1)] = number
                # A run is over when the last host has left it.
                if len(at) == hosts and min(at.values()) > now:
                    self._finish(now, runs, folder, (end, lines, said))
                    now, said = min(at.values()), []
                    begin(now)
            elif found and found.group(2).startswith(perftest.MARK):
                number, words = found.group(2)[len(perftest.MARK):].strip().split(" ", 1)
                lines.setdefault(int(number), []).append(words)
            else:
                said.append(line)
        code = lab.wait()
        if now < 0:
            reason = "no lab is available here" if code == EXIT_CANNOT else "exit status %d" % code
            raise LabError("%s\n%s" % (reason, places.tail("".join(said))))
        self._finish(now, runs, folder, (end, lines, said))
        for number in range(now + 1, len(runs)):
            end(number, None,
                "the lab ended before, exit status %d\n%s" % (code, places.tail("".join(said))))

    def _finish(self, number, runs, folder, told):
        end, lines, said = told
        if number < 0:
            return
        try:
            if number in lines:
                end(number, {"series": [perftest.series_of(runs[number], lines[number])]}, None)
            else:
                end(number, results.read(os.path.join(folder, "%d.json" % number)), None)
        except results.ResultError:
            end(number, None, "no result\n" + places.tail("".join(said)))
