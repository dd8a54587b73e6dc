"""The README's ways to start one process per host, taken from the README and run between two lab hosts as they stand there."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import lab_case

# What an administrator has set up before: keys, a daemon for ssh, and that root may use mpirun (everybody is root on a lab host).
HOST = """
keys=%(keys)s
mkdir -p ~/.ssh /etc/dropbear && cp $keys/key ~/.ssh/id_ed25519 && cp $keys/key.pub ~/.ssh/authorized_keys && chmod -R go= ~/.ssh
echo "StrictHostKeyChecking accept-new" >~/.ssh/config
dropbear -R -p 22
unset RANK WORLD_SIZE MESH_RENDEZVOUS NCCL_SOCKET_IFNAME
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_tcp_if_include=mgmt0 OMPI_MCA_oob_tcp_if_include=mgmt0
reach() { for try in $(seq 100); do ssh a "$1" && ssh b "$1" && return; sleep 0.1; done; return 1; }
reach true || exit
"""
GOOD = "# Out of bounds values : 0 OK"


def blocks():
    """The code blocks of the section, by the line before each."""
    with open(os.path.join(lab_case.ROOT, "README.md"), encoding="utf-8") as file:
        section = file.read().split("## Between real hosts\n")[1].split("\n## ")[0]
    return {before.splitlines()[-1]: code for before, code in re.findall(r"([^\n]+\n)```\n(.*?)```", section, re.S)}


def block(word):
    found = [code for before, code in blocks().items() if word in before]
    assert len(found) == 1, "the README has %d blocks about %s" % (len(found), word)
    # The README names the release build; the tests may have been given another.
    return found[0].replace("build/release/", os.path.relpath(lab_case.built("."), lab_case.ROOT) + "/")


def by_hand_on(host):
    """Of the block for two terminals, the lines of one host."""
    return "\n".join(line for line in block("By hand").splitlines() if not re.search("# on [^%s]$" % host, line))


class Launch(lab_case.LabCase):
    def test_as_the_readme_says(self):
        for program in ("ssh", "dropbear", "mpirun"):
            if not shutil.which(program):
                self.skipTest("no %s here" % program)
        script = 'if [ $LAB_HOST = a ]; then\n%s\nelse\n%s\nfi || exit\n' % (by_hand_on("a"), by_hand_on("b"))
        script += "unset RANK WORLD_SIZE MESH_RENDEZVOUS NCCL_SOCKET_IFNAME\n"
        for word in ("ssh", "Open MPI"):
            script += 'if [ $LAB_HOST = a ]; then echo "== %s"\n%s\nfi || exit\n' % (word, block(word))
        script += "echo done >/run/done; [ $LAB_HOST = b ] && until ssh a test -e /run/done; do sleep 0.2; done; true"
        with tempfile.TemporaryDirectory() as keys:
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", os.path.join(keys, "key")], check=True)
            lab = self.run_lab("pair", HOST % {"keys": keys} + script)
        self.assertEqual(lab.code, 0)
        self.assertEqual(lab.lines("a").count(GOOD), 3, "by hand, ssh, Open MPI")


if __name__ == "__main__":
    lab_case.main()
