"""``flatfed plan``: runs counted once, hours and memory by measured runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import made
from flatfed.commands import plan as planning
from repository import ROOT
from shipped import EXP

PROTOCOL, SPLIT = "fedsmoo-cifar10", "dir0.6-100"
COLUMNS = "cifar10-dir0.6-100, cifar10-dir0.6-200"


@pytest.fixture
def plan(tmp_path, monkeypatch, call):
    """Yield a function of the command's words that returns the forecast by name, and the output, from its table on.

    The current folder has a configuration of two columns of one table at paper scale on the CPU, nothing published.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(planning, "PUBLISHED", tmp_path / "published")
    text = f"scale: paper\ndevice: cpu\ntables:\n  - {{table: fedsmoo2023_T1, columns: [{COLUMNS}]}}\nfigures: []\n"
    Path("config.yaml").write_text(text)
    forecasts, forecast = [], planning.forecast

    def recorded(options):
        forecasts.append(forecast(options))
        return forecasts[-1]

    monkeypatch.setattr(planning, "forecast", recorded)

    def plan(*words):
        status, out, err = call("plan", "--config", "config.yaml", *words)
        return dict(forecasts[-1][0].iterrows()) if status == 0 else status, out, err

    return plan


def run(row: str, seed: int = 1, split: str = SPLIT, protocol: str = PROTOCOL):
    return EXP.run("paper", protocol, split, row, seed)


def record(run, seconds: float, **changes) -> None:
    """Write the record of a finished run that took so many seconds a round."""
    rounds = run.config.rounds
    about = {
        "rounds_done": rounds, "seconds": seconds * rounds,
        "device": "cpu", "host": {"gpu": None, "processor": "test machine"}, "parameters": 1000,
        "peak_memory_bytes": 3_000_000, "peak_device_memory_bytes": None,
        "settings": run.config.as_json(), **changes,
    }  # fmt: skip
    made.run(run.path, {"round": [about["rounds_done"]]}, **about)


def test_published_runs_count_where_none_is_here(plan):
    """Also an unfinished one: its seconds per round are those of 800 rounds. Each device has its own hours."""
    settings = run("fedavg").config.as_json()
    about = {"device": "cpu", "host": {"gpu": None, "processor": "a CPU"}, "peak_memory_bytes": 5 * 10**6}
    gpu = {"seconds": 1.0, "device": "cuda", "host": {"gpu": "a GPU", "processor": "a CPU"}}
    for name, place in {"p": {"seconds": 40.0}, "q": gpu}.items():
        made.so_far(f"published/{name}/runs/s/a/seed1", {"round": [10]}, settings=settings, **{**about, **place})
    forecast, out, _ = plan()
    assert forecast["total"]["CPU hours"] * 3600 == pytest.approx(33 * 800 * 4.0), "6 of 16 of two gradients, 5 % half"
    assert forecast["total"]["GPU hours"] * 3600 == pytest.approx(33 * 800 * 0.1)
    assert (forecast["total"]["memory"], forecast["total"]["unknown"]) == (5 * 10**6, 0)
    mean = "algorithms without a run: the mean of their protocol's runs per gradient"
    assert out.endswith(f"paper scale, cpu: by a CPU (published), a GPU (published); {mean}\n")
    record(run("fedavg", 2), 1.0)
    Path("published/p/runs/s/a/seed1/run.so-far.json").write_text("{}")
    forecast, _, err = plan()
    assert forecast["total"]["CPU hours"] * 3600 == pytest.approx(32 * 800 * 1.0), "a run here goes before"
    assert "run.so-far.json: not the record of a run" in err


def test_published_runs_that_serve_are_listed(plan):
    """Of one folder, the run that finished first; the other one is named on stderr. A served run needs no disk."""
    settings = run("fedavg").config.as_json()
    about = {"device": "cuda", "host": {"gpu": "a GPU", "processor": "a CPU"}, "versions": None}
    bfloat16 = {**settings, "protocol": f"{PROTOCOL}~bfloat16", "precision": "bfloat16"}
    made.run("p/first/seed1", {"round": [800]}, settings=bfloat16, finished="2026-11-26T00:00:00Z", **about)
    made.run("p/later/seed1", {"round": [800]}, settings=settings, finished="2026-11-27T00:00:00Z", **about)
    forecast, out, err = plan("--config", "published=[p]")
    assert out.endswith("published: p/first/seed1: bfloat16, a GPU\n")
    assert err == "p/later/seed1: not used: p/first/seed1 is used\n"
    assert forecast["total"]["disk"] == 31 * 4 * 11_181_642
    out = plan("--config", "published=[p/later, p]")[1]
    assert out.endswith("published: p/later/seed1: float32, a GPU\n")


def test_readme_has_the_hours_of_the_published_runs(tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+_T\d)`.*? \| (\d+) \| (\d+) \| ([\d.]+) \|$", readme, re.MULTILINE)
    tables, forecasts, forecast = [name for name, *_ in rows], [], planning.forecast
    monkeypatch.setattr(planning, "forecast", lambda options: forecasts.append(forecast(options)) or forecasts[-1])
    assert call("plan", *tables, "--scale", "paper")[0] == 0
    costs = forecasts[0][0].loc[tables, ["runs", "CPU hours", "GPU hours"]]
    assert rows == [(name, f"{runs:.0f}", f"{cpu:.0f}", f"{gpu:.1f}") for name, runs, cpu, gpu in costs.itertuples()]
    assert len(rows) == 3


def test_a_plan_by_hand(plan):
    """16 cells, two seeds: 32 runs. FedAvg's two on 100 clients are done at 1 s a round; one run has 10 rounds.

    Runs that diverged or do not name their host measure nothing.
    """
    for seed in (1, 2):
        record(run("fedavg", seed), 1.0)
    record(run("fedsam"), 50.0, diverged_at=7, rounds_done=6)
    record(run("fedsam", 2), 50.0, host=None)
    old = {**run("fedcm").config.as_json(), "rounds": 10}
    record(run("fedcm"), 3.0, settings=old, peak_memory_bytes=4_000_000)
    record(run("fedcm", protocol=f"{PROTOCOL}~cnn"), 9.0, peak_memory_bytes=9_000_000)  # another model
    Path(run("feddyn").path).mkdir(parents=True)
    Path(run("feddyn").path, "checkpoint.part").touch()
    forecast, out, _ = plan()
    total = forecast["total"]
    # FedCM's took 3 s a round, FedAvg's 1 s; the other rows get the mean of the three, for two gradients twice. A round
    # of 200 clients has half as many images: 5 % of them.
    by_hand = 800 * (2 * 0.5 + (2 + 2 * 0.5) * 3.0 + (6 + 6 * 0.5 + 2 * (4 + 6 * 0.5)) * (1.0 + 1.0 + 3.0) / 3)
    assert total["CPU hours"] * 3600 == pytest.approx(by_hand) and total["unknown"] == 0
    assert total["disk"] == 28 * 4 * 1000, "of unfinished runs; the records have the number of parameters"
    assert total["memory"] == 4_000_000, "FedCM's"
    head, *_, shown, _ = (re.split(r"\s{2,}", line)[1:] for line in out.splitlines())
    expected = {"finished": "4", "missing": "26", "CPU hours": f"{by_hand / 3600:.2f}", "memory": "4.0 MB"}
    assert dict(zip(head, shown, strict=True)).items() >= expected.items()


def test_runs_that_tables_and_figures_share_count_once(plan):
    both = plan("fedsmoo2023_T1", "fedsmoo2023_T6")[0]
    counts = {name: (one["cells"], one["runs"], one["unknown"]) for name, one in both.items()}
    assert counts == {"fedsmoo2023_T1": (16, 32, 32), "fedsmoo2023_T6": (128, 128, 128), "total": (144, 160, 160)}
    assert both["fedsmoo2023_T1"]["disk"] == 32 * 4 * 11_181_642, "without a record, of the built model"
    whole = plan("fedsmoo2023_T1", "fedsmoo2023_T6", "--config", "tables=[fedsmoo2023_T1]")[0]
    assert whole["fedsmoo2023_T1"]["runs"] == whole["total"]["runs"] == 256, "all runs of Table 6 are Table 1's"
    both = plan("fedsmoo2023_T1", "fedsmoo2023_F7")[0]
    assert (both["fedsmoo2023_F7"]["cells"], both["fedsmoo2023_F7"]["runs"]) == (0, 64)
    assert both["total"]["runs"] == 32 + 64 - 16, "Figure 7 has runs of Table 1, those of dir0.6-100 too"
    surfaces = plan("fedlesam2024_F3")[0]["total"]
    assert surfaces["disk"] > surfaces["runs"] * 10**6, "a loss surface needs the model"
    assert "did you mean 'fedsmoo2023_F7'?" in plan("fedsmoo2023_F77")[2]
