"""The ways to start one process per host, taken from perf/README.md and run between two lab hosts
as they stand there."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import lab_case

# The set-up that an administrator has made before: keys, a daemon for ssh, and leave for root to
# use mpirun (everybody is root on a lab host).
HOST = """
keys=%(keys)s
mkdir -p ~/.ssh /etc/dropbear && cp $keys/key ~/.ssh/id_ed25519 &&
  cp $keys/key.pub ~/.ssh/authorized_keys && chmod -R go= ~/.ssh
echo "StrictHostKeyChecking accept-new" >~/.ssh/config
dropbear -R -p 22
unset RANK WORLD_SIZE MESH_RENDEZVOUS NCCL_SOCKET_IFNAME
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_tcp_if_include=mgmt0 OMPI_MCA_oob_tcp_if_include=mgmt0
reach() {
  for try in $(seq 1000); do ssh a "$1" && ssh b "$1" && return; sleep 0.1; done
  return 1
}
reach true || exit
"""
# The set-up for Slurm: one controller, a daemon on each host, and the cgroup its daemon expects
# systemd to have made.
SLURM = """
unset RANK WORLD_SIZE MESH_RENDEZVOUS NCCL_SOCKET_IFNAME
mkdir -p /run/slurmctld /run/slurmd /run/munge /var/log/munge /var/lib/munge
mkdir -p /etc/munge /etc/slurm /sys/fs/cgroup/system.slice
echo IgnoreSystemd=yes >/etc/slurm/cgroup.conf
cat >/etc/slurm/slurm.conf <<CONF
ClusterName=lab
SlurmctldHost=a
SlurmUser=root
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
StateSaveLocation=/run/slurmctld
SlurmdSpoolDir=/run/slurmd
SelectType=select/linear
NodeName=a,b CPUs=1
PartitionName=all Nodes=a,b Default=YES
CONF
head -c 1024 /dev/zero | tr '\\0' k >/etc/munge/munge.key
chown -R munge: /etc/munge /run/munge /var/log/munge /var/lib/munge &&
  chmod 400 /etc/munge/munge.key && chmod 755 /run/munge
su -s /bin/sh munge -c munged || exit
[ $LAB_HOST = b ] || slurmctld || exit
slurmd || exit
idle() {
  for try in $(seq 3000); do sinfo -h -t idle -o %D | grep -qx 2 && return; sleep 0.2; done
  sinfo; return 1
}
idle || exit
"""
GOOD = "# Out of bounds values : 0 OK"


def blocks():
    """Returns the code blocks of the section, by the paragraph before each."""
    with open(os.path.join(lab_case.ROOT, "perf", "README.md"), encoding="utf-8") as file:
        section = file.read().split("## Between real hosts\n")[1].split("\n## ")[0]
    return dict(re.findall(r"((?:(?!```)[^\n]+\n)+)```sh hosts\n(.*?)```", section, re.S))


def block(word):
    found = [code for before, code in blocks().items() if word in before]
    assert len(found) == 1, "perf/README.md has %d blocks about %s" % (len(found), word)
    # The page names the release build; the tests may have been given another.
    return found[0].replace("build/release/",
                            os.path.relpath(lab_case.built("."), lab_case.ROOT) + "/")


def by_hand_on(host):
    """Returns the lines of one host in the block for two terminals."""
    return "\n".join(line for line in block("By hand").splitlines()
                     if not re.search("# on [^%s]$" % host, line))


class Launch(lab_case.LabCase):
    def test_as_the_page_says(self):
        for program in ("ssh", "dropbear", "mpirun"):
            if not shutil.which(program):
                self.skipTest("no %s here" % program)
        script = 'if [ $LAB_HOST = a ]; then\n%s\nelse\n%s\nfi || exit\n' % (by_hand_on("a"),
                                                                             by_hand_on("b"))
        script += "unset RANK WORLD_SIZE MESH_RENDEZVOUS NCCL_SOCKET_IFNAME\n"
        for word in ("ssh", "Open MPI"):
            script += 'if [ $LAB_HOST = a ]; then echo "== %s"\n%s\nfi || exit\n' % (word,
                                                                                     block(word))
        script += ("echo done >/run/done; [ $LAB_HOST = b ] && "
                   "until ssh a test -e /run/done; do sleep 0.2; done; true")
        with tempfile.TemporaryDirectory() as keys:
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                            os.path.join(keys, "key")], check=True)
            lab = self.run_lab("pair", HOST % {"keys": keys} + script)
        self.assertEqual(lab.code, 0)
        self.assertEqual(lab.lines("a").count(GOOD), 3, "by hand, ssh, Open MPI")

    def test_slurm_as_the_page_says(self):
        for program in ("srun", "slurmctld", "slurmd", "munged"):
            if not shutil.which(program):
                self.skipTest("no %s here (packages slurm-wlm and munge)" % program)
        # Host b stays until the controller on host a, which goes last, does not answer any more.
        leave = "for try in $(seq 3000); do scontrol ping | grep -q UP || break; sleep 0.5; done"
        script = ("if [ $LAB_HOST = a ]; then\n%s\ncode=$?; pkill slurmctld; (exit $code); "
                  "else\n%s\nfi" % (block("Slurm"), leave))
        lab = self.run_lab("pair", SLURM + script)
        self.assertEqual(lab.code, 0)
        self.assertEqual(lab.lines("a").count(GOOD), 1)


if __name__ == "__main__":
    lab_case.main()
