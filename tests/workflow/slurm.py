"""A Slurm of one node on this machine, for tests: its daemons on the loopback, one GPU that is a name and nothing else.

Needs root and Debian's slurmctld, slurmd, slurm-client and munge. Its files lie in a folder of the test, but for the
configuration: the executor's job step takes every SLURM_* variable out of the environment, SLURM_CONF too, so that has
to be in /etc/slurm. A configuration there that is not ours is left alone. There is one place for it, so tests that run
at a time take turns.
"""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

MARK = "# Written by FlatFed's tests for a Slurm of one node."
ETC = Path("/etc/slurm")
TURN = Path(tempfile.gettempdir()) / "flatfed-tests-slurm.lock"
DAEMONS = ("munged", "slurmctld", "slurmd")
CLIENTS = ("sbatch", "srun", "squeue", "scancel", "sinfo", "scontrol")

# No accounting: `squeue` has to tell how jobs ended, so finished ones stay in its memory for an hour. A requeued job
# waits for cred_expire, 120 s unless said. Jobs of the partition `urgent` put those of `all` back into the queue.
SLURM_CONF = """{mark}
ClusterName=one
SlurmctldHost={node}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=15
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MinJobAge=3600
KillWait=30
GresTypes=gpu
NodeName={node} NodeAddr=127.0.0.1 CPUs={cores} RealMemory={memory} Gres=gpu:1 State=UNKNOWN
PartitionName=all Nodes={node} Default=YES MaxTime=1-00:00:00 State=UP
PartitionName=urgent Nodes={node} PriorityTier=10 PreemptMode=OFF MaxTime=10 State=UP
"""
GRES_CONF = "{mark}\nAutoDetect=off\nNodeName={node} Name=gpu File=/dev/null\n"


def unavailable():
    """Return why no Slurm can be started here, None where one can."""
    path = Slurm.environment()["PATH"]
    missing = [name for name in (*DAEMONS, *CLIENTS) if shutil.which(name, path=path) is None]
    if missing:
        return f"{', '.join(missing)}: not installed (Debian: slurmctld slurmd slurm-client munge)"
    if os.getuid() != 0:
        return "a Slurm is started by root"
    other = ETC / "slurm.conf"
    if other.exists() and MARK not in other.read_text():
        return f"{other} is another Slurm's"
    return None


class Slurm:
    """The daemons, started in ``folder``; the context ends them and removes the configuration."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.turn = None

    def __enter__(self):
        self.turn = open(TURN, "w")
        fcntl.flock(self.turn, fcntl.LOCK_EX)
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            self.stop()
        finally:
            self.turn.close()

    def start(self):
        node = socket.gethostname().partition(".")[0]
        for name in ("state", "spool"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        megabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
        values = {"mark": MARK, "node": node, "folder": self.folder, "ports": free_ports(2), "cores": os.cpu_count()}
        ETC.mkdir(exist_ok=True)
        (ETC / "slurm.conf").write_text(SLURM_CONF.format(**values, memory=int(megabytes * 0.85)))
        (ETC / "gres.conf").write_text(GRES_CONF.format(**values))
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        places = {"key-file": key, "socket": "munge.socket", "pid-file": "munged.pid", "log-file": "munged.log"}
        places["seed-file"] = "munge.seed"
        command = ["munged", "--force", *(f"--{option}={self.folder / file}" for option, file in places.items())]
        for words in (command, ["slurmctld"], ["slurmd"]):
            subprocess.run(words, check=True, env=self.environment(), capture_output=True)
        deadline = time.monotonic() + 60
        while (state := self.ask("sinfo", "-h", "-N", "-p", "all", "-o", "%t")) not in ("idle", "mix", "alloc"):
            assert time.monotonic() < deadline, f"the node is {state!r}: {(self.folder / 'slurmd.log').read_text()}"
            if state.startswith(("down", "drain")):
                self.ask("scontrol", "update", f"nodename={node}", "state=resume")
            time.sleep(0.2)

    def stop(self):
        for name in reversed(DAEMONS):
            file = self.folder / f"{name}.pid"
            if file.exists() and file.read_text().strip():
                process = int(file.read_text())
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGTERM)
                    deadline = time.monotonic() + 20
                    while time.monotonic() < deadline:
                        os.kill(process, 0)
                        time.sleep(0.1)
        for name in ("slurm.conf", "gres.conf"):
            file = ETC / name
            if file.exists() and MARK in file.read_text():
                file.unlink()

    def ask(self, *command):
        """Return what a Slurm command prints."""
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=self.environment())
        return done.stdout.strip()

    def jobs(self):
        """Return (id, state, reason) of every job that Slurm remembers, tasks of arrays one by one."""
        lines = self.ask("squeue", "-h", "-r", "-t", "all", "-o", "%i|%T|%r").splitlines()
        return [tuple(line.split("|")) for line in lines]

    def said(self):
        """Return what Slurm knows of its jobs and what its daemons wrote, for a test that fails."""
        logs = [(self.folder / f"{name}.log").read_text() for name in ("slurmctld", "slurmd")]
        return "\n".join([self.ask("scontrol", "show", "jobs"), *logs])

    def restarts(self, job):
        """Return how often Slurm has put a job into the queue again."""
        return int(re.search(r" Restarts=(\d+) ", self.ask("scontrol", "show", "job", job))[1])

    @staticmethod
    def environment():
        return {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin"}


def free_ports(count):
    """Return ports that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
