"""benchmarks/lease.sh: what is packed at home trains where there is no Snakemake, stops in time and goes on."""

import os
import re
import shutil
import sys

from project import REPOSITORY


def test_runs_train_beside_each_other_stop_in_time_and_go_on(project, tmp_path):
    (project.root / "benchmarks").mkdir(exist_ok=True)
    shutil.copy(REPOSITORY / "benchmarks/lease.sh", project.root / "benchmarks/lease.sh")
    data = project.root / "images.npz"
    data.touch()
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    env = {"PATH": path, "SCALE": "preview", "ALGORITHMS": "fedavg fedcm", "OMP_NUM_THREADS": "1"}

    def lease(*words):
        done = project.call("bash", "benchmarks/lease.sh", *words, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    lease("pack", data)
    script = project.root / ".lease/fedcm.sh"
    text, changed = re.subn(r'"rounds": \d+', '"rounds": 20000', script.read_text())
    assert changed == 1
    script.write_text(text)
    out = tmp_path / "out"
    out.mkdir()
    first = lease("train", out, "25")
    assert "fedavg/seed1: done" in first and "fedcm/seed1: stopped by SIGTERM" in first
    assert {file.name for file in (out / "fedavg").iterdir()} == {"metrics.csv", "run.json"}
    assert {file.name for file in (out / "fedcm").iterdir()} == {"metrics.so-far.csv", "run.so-far.json"}
    before = len((out / "fedcm/metrics.so-far.csv").read_text().splitlines())
    lease("train", out, "15")
    after = (out / "fedcm/metrics.so-far.csv").read_text().splitlines()
    assert len(after) > before > 2
    assert [int(line.split(",")[0]) for line in after[1:]] == list(range(1, len(after)))


def test_a_wrong_word_shows_how_it_is_called(project):
    done = project.call("bash", REPOSITORY / "benchmarks/lease.sh", "trian")
    assert done.returncode == 2 and "benchmarks/lease.sh train OUT SECONDS" in done.stdout
