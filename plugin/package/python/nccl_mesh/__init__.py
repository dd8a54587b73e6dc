"""nccl-mesh, NCCL's network plugin for cabled, switched and routed RDMA hosts.

    import os, nccl_mesh
    os.environ.update(nccl_mesh.env())     # before torch.distributed.init_process_group
"""

import pathlib

__version__ = "@VERSION@"

_HERE = pathlib.Path(__file__).resolve().parent


def plugin_path():
    """Returns the path of the plugin's library, for NCCL_NET_PLUGIN."""
    return str(_HERE / "lib" / "libnccl-net-mesh.so")


def env():
    """Returns the variables with which NCCL uses the plugin and no other transport. NCCL 2.26 and
    later take a path; before, NCCL_NET_PLUGIN is "mesh" and LD_LIBRARY_PATH names its folder."""
    return {"NCCL_NET_PLUGIN": plugin_path(), "NCCL_NET": "Mesh"}


def tool_path(name):
    """Returns the path of a tool, such as "mesh_perf". Raises ValueError if there is none."""
    path = _HERE / "bin" / name
    if not path.is_file():
        raise ValueError("no tool is called %r" % name)
    return str(path)
