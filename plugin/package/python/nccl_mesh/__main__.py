"""The command nccl-mesh: the tools of the wheel, and what a job's environment needs."""

import os
import pathlib
import shlex
import sys

import nccl_mesh

_TOOLS = {
    "doctor": ("mesh_doctor", "what is wrong with hosts and cables, with evidence and remedy"),
    "rails": ("mesh_rails", "the RDMA ports that NCCL would see here, and why others are none"),
    "perf": ("mesh_perf", "nccl-tests' table through the plugin: nccl-mesh perf all_reduce"),
    "top": ("mesh_top", "links, paths and rates of running jobs, from NCCL_MESH_STATS files"),
    "tune": ("mesh_tune", "measures a pair of hosts and writes what is fastest"),
    "fault": ("mesh_fault", "breaks a host of the software fabric"),
}


def usage():
    lines = ["usage: nccl-mesh COMMAND [ARGUMENTS]", "", "commands:",
             "  env      what to set so that NCCL uses the plugin, for a shell: "
             'eval "$(nccl-mesh env)"', "  path     the plugin's library"]
    lines += ["  %-8s %s" % (name, what) for name, (_, what) in _TOOLS.items()]
    lines += ["", "  --help, --version; of a tool: nccl-mesh perf --help"]
    return "\n".join(lines)


def run_tool(tool, arguments):
    path = nccl_mesh.tool_path(tool)
    folder = str(pathlib.Path(nccl_mesh.plugin_path()).parent / "tools")
    others = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = folder + (":" + others if others else "")
    os.execv(path, [path] + arguments)


def main():
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return 0 if arguments else 2
    command, rest = arguments[0], arguments[1:]
    if command in _TOOLS:
        run_tool(_TOOLS[command][0], rest)
    if command in ("--version", "env", "path") and not rest:
        texts = {"--version": "nccl-mesh " + nccl_mesh.__version__,
                 "path": nccl_mesh.plugin_path(),
                 "env": "\n".join("export %s=%s" % (name, shlex.quote(value))
                                  for name, value in nccl_mesh.env().items())}
        print(texts[command])
        return 0
    print("nccl-mesh: %r is no command; see nccl-mesh --help" % " ".join(arguments),
          file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
