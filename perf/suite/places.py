"""The places of a sweep's runs. Each place shows the commands that it would run, and runs them:
run_all() calls begin(number) before each run and end(number, outcome, error) after it."""

import json
import os
import shlex
import subprocess
import tempfile

import perftest
import plan
import results

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
TAIL_LINES = 12
PASSED_ON = ("NCCL_", "MESH_")


class RunError(Exception):
    """The reason why a run has no result, with the end of its output."""


def tail(text):
    return "\n".join("  | " + line for line in text.strip().splitlines()[-TAIL_LINES:])


def assignments(environment):
    return ["%s=%s" % item for item in sorted(environment.items())]


def call(command, environment, timeout_s):
    """Runs a local command and returns its end, with its output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                              env=dict(os.environ, **environment),
                              timeout=timeout_s, check=False, cwd=ROOT, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise RunError("not finished within %d s" % timeout_s) from None
    except OSError as error:
        raise RunError("%s: %s" % (command[0], error.strerror)) from None
    return done


class Place:
    """show(runs) returns the command lines. one(run) returns a result file's content, or only
    {"series": ...} of a program that is not ours."""

    waits_for = ""  # what comes before the first run

    def run_all(self, runs, begin, end):
        for number, run in enumerate(runs):
            begin(number)
            try:
                end(number, self.one(run), None)
            except (RunError, results.ResultError) as error:
                end(number, None, str(error))


class Local(Place):
    """A place where each run is one local command with --json FILE."""

    def command(self, run):
        raise NotImplementedError

    def show(self, runs):
        return [shlex.join(assignments(run.environment()) + self.command(run)) for run in runs]

    def one(self, run):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "result.json")
            done = call(self.command(run) + ["--json", path], run.environment(),
                        self.timeout_s + 60)
            if not os.path.exists(path):
                raise RunError("exit status %d\n%s" %
                               (done.returncode, tail(done.stderr or done.stdout)))
            return results.read(path)


class Soft(Local):
    def __init__(self, options, build):
        self.timeout_s = options.timeout
        self.program = os.path.join(build, "perf/mesh_perf/mesh_perf")
        self.fabric = options.fabric or os.path.join(ROOT, "perf/fabrics/triangle.json")
        with open(self.fabric, encoding="utf-8") as stream:
            self.hosts = [host["name"] for host in json.load(stream)["hosts"]]

    def command(self, run):
        via = run.setting["via"]
        far = self.hosts[0:via + 2:via + 1]
        hosts = ["--hosts", ",".join(far)] if run.pair and len(self.hosts) > 2 else []
        hosts += ["--via", ",".join(self.hosts[1:via + 1])] if via else []
        rate = ["--memcpy"] if run.operation != "latency" else []
        return [self.program] + run.perf_arguments() + ["--fabric", self.fabric, "--timeout",
                                                        str(self.timeout_s)] + hosts + rate


class Model(Local):
    def __init__(self, options, build):
        self.timeout_s = options.timeout
        self.program = os.path.join(build, "perf/model/mesh_model")
        self.fabric = ["--fabric", options.fabric] if options.fabric else []

    def show(self, runs):
        return [shlex.join(self.command(run)) for run in runs]

    def command(self, run):
        return [self.program] + run.model_arguments() + self.fabric


class Hosts(Place):
    """Real hosts, reached by ssh; each has this tree at this path."""

    def __init__(self, options, build):
        self.hosts, self.ssh, self.port, self.timeout_s = options.hosts, shlex.split(
            options.ssh), options.port, options.timeout
        self.device = options.perftest_device
        self.program = os.path.join(build, "perf/mesh_perf/mesh_perf")
        self.environment = {name: value for name, value in os.environ.items()
                            if name.startswith(PASSED_ON)
                            and name not in ("MESH_RENDEZVOUS", "MESH_BUILD")}

    def commands(self, run):
        hosts = self.hosts[:2] if run.pair else self.hosts
        found = []
        for rank, host in enumerate(hosts):
            environment = dict(self.environment, RANK=str(rank), WORLD_SIZE=str(len(hosts)),
                               MESH_RENDEZVOUS="%s:%d" % (hosts[0], self.port), **run.environment())
            found.append(self.ssh + [host, "cd %s && %s" %
                                     (shlex.quote(ROOT), self._remote(run, rank, environment))])
        return found

    def _remote(self, run, rank, environment):
        given = " ".join(shlex.quote(one) for one in assignments(environment))
        if run.operation in plan.PERFTEST:
            return "env %s bash -c %s" % (given, shlex.quote(perftest.script(run, self.device,
                                                                             perftest.MARK)))
        command = "env %s %s" % (given, shlex.join([self.program] + run.perf_arguments() +
                                                   ["--timeout", str(self.timeout_s)]))
        if rank != 0:
            return command
        return ('file=$(mktemp) && { %s --json "$file" >&2; code=$?; '
                'cat "$file"; rm -f "$file"; exit $code; }' % command)

    def show(self, runs):
        return [shlex.join(command) for run in runs for command in self.commands(run)]

    def one(self, run):
        processes = [subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True,
                                      errors="replace", start_new_session=True)
                     for command in self.commands(run)]
        try:
            said = [process.communicate(timeout=self.timeout_s + 60) for process in processes]
        except subprocess.TimeoutExpired:
            raise RunError("not finished within %d s" % self.timeout_s) from None
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.communicate()
        codes = [process.returncode for process in processes]
        if run.operation in plan.PERFTEST:
            lines = [line[len(perftest.MARK):] for line in said[1][0].splitlines()
                     if line.startswith(perftest.MARK)]
            if not lines:
                raise RunError("exit status %s\n%s" % (codes, tail(said[1][1] or said[0][1])))
            return {"series": [perftest.series_of(run, lines)]}
        try:
            return results.from_json(said[0][0])
        except results.ResultError:
            words = "\n".join("%s, exit status %d:\n%s" % (host, code, tail(one[1])) for host, code,
                              one in zip(self.hosts, codes, said))
            raise RunError("no result\n" + words) from None
