"""``flatfed clean`` lists what FlatFed wrote, deletes it with ``--yes``, and nothing while a training runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from flatfed import cli
from flatfed.runs import lock

RUN = "results/preview/runs/fedsmoo-cifar10/dir0.6-100/fedavg/seed1"
WRITTEN = (
    f"{RUN}/run.json",
    *("results/preview/tables/fedsmoo2023_T1.csv", "results/preview/report.html", "results/paper/cells/x.json"),
    *("results/errata.html", "resources/digits/dataset.json", "resources/weights/vit.safetensors"),
    *("logs/errata.log", "logs/preview/report.log", "logs/fetch/digits.log", "benchmarks/preview/report.tsv"),
)
KEPT = (
    *("results/published/runs/run.json", "results/paper/mine.txt", "resources/photos/1.png", "logs/mine.log"),
    *("benchmarks/rounds.py", "config/config.yaml"),
)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (*WRITTEN, *KEPT):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(bytes(1_000_000))


def files() -> set[str]:
    return {str(path) for path in Path().rglob("*") if path.is_file()}


def test_without_yes_it_lists_sizes_and_deletes_nothing(capsys):
    before = files()
    assert cli.main(["clean"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) == len(WRITTEN) and "       1.0 MB  results/preview/runs" in lines
    assert last == "`flatfed clean --yes` deletes them" and files() == before


def test_with_yes_it_deletes_what_flatfed_wrote_and_nothing_else(capsys):
    assert cli.main(["clean", "--yes"]) == 0
    assert capsys.readouterr().out.endswith("deleted\n") and files() == set(KEPT)
    assert cli.main(["clean", "--yes"]) == 0
    assert capsys.readouterr().out == "nothing to delete\n"


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path):
    Path("results/preview/runs").rename("elsewhere")
    Path("results/preview/runs").symlink_to(tmp_path / "elsewhere")
    assert cli.main(["clean", "--yes"]) == 0
    assert not Path("results/preview/runs").is_symlink() and any(Path("elsewhere").rglob("run.json"))


def test_it_is_refused_while_a_training_runs(capsys):
    with lock.held(RUN):
        before = files()
        assert cli.main(["clean", "--yes"]) == 2
        assert files() == before
    assert (
        capsys.readouterr().err == f"flatfed clean: {RUN}: a training is running; stop it first. Nothing was deleted\n"
    )
