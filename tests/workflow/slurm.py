"""A Slurm of one node on this machine, for tests: its daemons on the loopback, one GPU that is a name and nothing else.

Needs root and Debian's slurmctld, slurmd, slurm-client and munge. Its files lie in a folder of the test, but for the
configuration: the executor's job step takes every SLURM_* variable out of the environment, SLURM_CONF too, so that has
to be in /etc/slurm. A configuration there that is not ours is left alone. There is one place for it, so tests that run
at a time take turns.
"""

import contextlib
import fcntl
import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from project import wait_for

MARK = "# Written by FlatFed's tests for a Slurm of one node."
ETC = Path("/etc/slurm")
TURN = Path(tempfile.gettempdir()) / "flatfed-tests-slurm.lock"
DAEMONS = ("munged", "slurmctld", "slurmd")
CLIENTS = ("sbatch", "srun", "squeue", "scancel", "sinfo", "scontrol")

# No accounting: `squeue` has to tell how jobs ended, so finished ones stay in its memory for an hour. A requeued job
# waits for cred_expire, 120 s unless said. Jobs of the partition `urgent` put those of `all` back into the queue.
SLURM_CONF = Path(__file__).with_name("slurm.conf").read_text(encoding="utf-8")
GRES_CONF = "{mark}\nAutoDetect=off\nNodeName={node} Name=gpu Type=a100 File=/dev/null\n"


def unavailable():
    """Return why no Slurm can be started here, None where one can."""
    path = environment()["PATH"]
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
    """Questions to the daemons of ``folder``."""

    def __init__(self, folder):
        self.folder = folder

    def ask(self, *command):
        """Return what a Slurm command prints."""
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=environment())
        return done.stdout.strip()

    def jobs(self):
        """Return (id, state, reason) of every job that Slurm remembers, tasks of arrays one by one."""
        lines = self.ask("squeue", "-h", "-r", "-t", "all", "-o", "%i|%T|%r").splitlines()
        return [tuple(line.split("|")) for line in lines]

    def state(self):
        """Return Slurm's jobs and what its daemons wrote, for a test that fails."""
        return "\n".join([self.ask("scontrol", "show", "jobs"), (self.folder / "daemons.log").read_text()])

    def restarts(self, job):
        """Return how often Slurm has put a job into the queue again."""
        return int(re.search(r" Restarts=(\d+) ", self.ask("scontrol", "show", "job", job))[1])


def environment():
    return {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin"}


@contextlib.contextmanager
def one_node(folder):
    """Yield a :class:`Slurm` whose daemons run until the context ends; then there is no configuration either."""
    with contextlib.ExitStack() as stack:
        fcntl.flock(stack.enter_context(open(TURN, "w")), fcntl.LOCK_EX)
        for name in ("state", "spool"):
            (folder / name).mkdir()
        folder.chmod(0o755)
        memory = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20 * 0.85)
        values = {"mark": MARK, "node": socket.gethostname().partition(".")[0], "folder": folder, "memory": memory}
        values |= {"ports": free_ports(2), "cores": os.cpu_count()}
        ETC.mkdir(exist_ok=True)
        for name, text in (("slurm.conf", SLURM_CONF), ("gres.conf", GRES_CONF)):
            (ETC / name).write_text(text.format(**values))
            stack.callback((ETC / name).unlink, missing_ok=True)
        key, munge = folder / "munge.key", folder / "munge.socket"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        files = {"key-file": key, "socket": munge}
        files |= {f"{kind}-file": folder / f"munge.{kind}" for kind in ("pid", "seed")}
        slurm = Slurm(folder)
        with (folder / "daemons.log").open("w") as log:
            for words in (
                ["munged", "--foreground", "--force", *(f"--{option}={file}" for option, file in files.items())],
                ["slurmctld", "-D"],
                ["slurmd", "-D"],
            ):
                daemon = subprocess.Popen(words, env=environment(), stdout=log, stderr=log)
                stack.callback(daemon.wait, 20)
                stack.callback(daemon.terminate)
                wait_for(munge.exists, slurm.state)
        wait_for(lambda: slurm.ask("sinfo", "-h", "-N", "-p", "all", "-o", "%t") == "idle", slurm.state)
        yield slurm


def free_ports(count):
    """Return ports that nobody listens on, below those that the kernel gives to connections meanwhile."""
    ports = []
    for port in random.sample(range(20_000, 30_000), 1000):
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise OSError("no free port from 20,000 to 30,000")
