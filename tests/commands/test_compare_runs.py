"""``flatfed compare``: paired differences by hand, the published rows as in README, and runs that still train."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

import made
from flatfed import cli
from repository import ROOT
from shipped import EXP

PUBLISHED = ROOT / "results/published/fedsmoo-cifar10/runs"

FEDSMOO = ("fedsmoo-cifar10", "path3-100")


def trained(
    algorithm: str, accuracies: list[float], seed: int = 1, folder: str = "runs", ids=FEDSMOO, **record
) -> Path:
    """Write a run of the preview, finished if it has 20 rounds or diverged; return its folder."""
    config = EXP.run("preview", *ids, algorithm, seed).config
    rounds = list(range(1, len(accuracies) + 1))
    write = made.run if len(rounds) == config.rounds or "diverged_at" in record else made.so_far
    columns = {"round": rounds, "test_accuracy": accuracies}
    place = f"{folder}/{config.protocol}/{config.split}/{algorithm}/seed{seed}"
    return Path(write(place, columns, settings=config.as_json(), **record))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def compare(*words: str, status: int = 0) -> pd.DataFrame:
    """Compare and return the lines of the CSV, by baseline, quantity (of the last rounds: "last") and seeds."""
    assert cli.main(["compare", *words, "--out", "compare.csv"]) == status
    lines = pd.read_csv("compare.csv", dtype={"seed": str})
    lines["quantity"] = lines["quantity"].replace(r".*last.*", "last", regex=True)
    return lines.set_index(["baseline", "quantity", "seed"]).sort_index()


def test_differences_of_pairs_and_their_deviation(capsys):
    """Targets of this preview: 0.7 and 0.85, unsmoothed; the number of a table is that of the last round."""
    for seed, last in ((1, 0.80), (2, 0.84), (3, 0.85)):
        trained("fedsmoo", [0.25] * 10 + [0.75] * 9 + [last], seed)
        trained("fedavg", [0.5] * 15 + [0.7] * 5, seed)
    trained("fedsmoo", [0.25] * 4, 4)  # it trains
    trained("fedavg", [0.5] * 20, 4)
    trained("fedsam", [0.5] * 20, 5)  # no run of fedsmoo has this seed
    lines = compare("fedsmoo", "fedavg", "fedsam", "--runs", "runs")
    last = lines.loc["fedavg", "last"]
    assert list(last.index) == ["1", "1;2;3", "2", "3", "4"] and list(last["round"]) == [20, 20, 20, 20, 4]
    assert last["difference"].to_list() == pytest.approx([0.10, 0.13, 0.14, 0.15, -0.25])
    deviation = ((0.03**2 + 0.01**2 + 0.02**2) / 2) ** 0.5  # of 0.10, 0.14 and 0.15 from 0.13
    assert last["deviation"].dropna().to_list() == pytest.approx([deviation])
    mean = lines.loc["fedavg", "mean of all common rounds", "1"]
    assert (mean["mine_value"], mean["baseline_value"]) == pytest.approx(((2.5 + 6.75 + 0.8) / 20, (7.5 + 3.5) / 20))
    first, second = (lines.loc["fedavg", f"rounds to {target} %"] for target in (70, 85))
    assert first["difference"].dropna().to_list() == [-5] * 4 and first.loc["1", "mine_value"] == 11
    assert second["mine_value"].dropna().to_list() == [20] and second["difference"].isna().all()
    grid = {re.sub(r"\s{2,}", "|", line.strip()) for line in capsys.readouterr().out.splitlines()}
    assert f"last common round|FedAvg 3 seeds|20|83.00|70.00 +13.00 ± {100 * deviation:.2f}" in grid
    assert "rounds to 70 %|FedAvg|1|20|11|16|−5" in grid and "rounds to 85 %|FedAvg|3|20|20|>20" in grid
    assert not any("One seed" in line for line in grid)


def test_the_published_rows_have_the_numbers_of_readme(capsys):
    """Also against a run that trains: both at its last round."""
    rows = {"fedavg": "FedAvg", "fedcm": "FedCM", "feddyn": "FedDyn", "mofedsam": "MoFedSAM", "scaffold": "SCAFFOLD"}
    rows |= {"fedsam": "FedSAM", "fedadam": "FedAdam"}
    lines = compare("fedsmoo", *rows, "--runs", str(PUBLISHED / "path3-200"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, label in rows.items():
        accuracy, rounds = (lines.loc[name].loc[key] for key in (("last", "1"), ("rounds to 68 %", "1")))
        cells = re.search(rf"\| {label} \|.*", readme)[0].strip("| ").split(" | ")
        first = [cell.split("(")[-1].split(",")[0] for cell in cells]  # of several seeds
        assert f"{100 * accuracy.baseline_value:.2f}" == first[4]
        assert f"{rounds.baseline_value:.0f}" == first[6]
    assert accuracy["mine_value"] == pytest.approx(0.7831, abs=5e-5)
    output = capsys.readouterr().out
    assert "\nfedsmoo-cifar10/path3-200/fedcm/seed1: in float32, fedsmoo in bfloat16\n" in output
    assert "unfinished" not in output
    running = compare("fedlesam_d", "fedavg", "--runs", str(PUBLISHED)).loc["fedavg", "last"]
    output = capsys.readouterr().out
    assert "fedlesam_d/seed1: unfinished, 232 rounds\n" in output and "fedavg/seed1: unfinished, 439 rounds\n" in output
    assert running["round"].to_list() == [232] and running["mine_rounds"].to_list() == [232]


def test_pairs_of_other_data_are_refused_and_the_others_compared(capsys):
    for seed in (1, 2):
        trained("fedsmoo", [0.5] * 20, seed)
    trained("fedavg", [0.4] * 20, 1)
    other = trained("fedavg", [0.4] * 20, 2, partition_digest="1" * 64)
    lines = compare("fedsmoo", "fedavg", "--runs", "runs", status=2)
    assert lines.loc["fedavg", "last"].index.to_list() == ["1"]
    error = capsys.readouterr().err
    assert f"flatfed compare: {other}: trained on other data or another partition than runs/" in error


def test_damaged_and_diverged_runs_are_named(capsys):
    trained("fedsmoo", [0.5] * 20)
    first = trained("fedavg", [0.4] * 3, diverged_at=4)
    damaged = trained("fedsam", [0.4] * 20)
    (damaged / "metrics.csv").write_text("round")
    compare("fedsmoo", "fedavg", "--runs", "runs", status=2)
    output = capsys.readouterr()
    assert f"\n{first}: diverged in round 4\n" in output.out
    assert output.err.endswith(f"flatfed compare: left out as damaged: {damaged}\n")
    trained("fedcm", [], diverged_at=1)
    assert cli.main(["compare", "fedsmoo", "fedcm", "--runs", "runs"]) == 2
    assert "fedcm/seed1: diverged in round 1\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fedsmo", "fedavg", "--runs", "runs"], "unknown algorithm 'fedsmo'; did you mean 'fedsmoo'?"),
        (["fedsmoo", "fedavg", "--runs", "nowhere"], "--runs: there is no folder 'nowhere' ("),
        (["fedsmoo", "fedavg", "--runs", "runs", "."], "fedsmoo and the baselines have no runs of one protocol, split"),
        (["fedsmoo", "fedsam", "fedsmoo", "--runs", "runs"], "'fedsmoo' is your method and a baseline; name another"),
        (["fedsmoo", "fedsam", "--runs", "runs"], "learning_rate is 0.2, here 0.1"),
    ],
)
def test_without_a_pair_there_is_one_message(capsys, words, message):
    trained("fedsmoo", [0.5] * 20)
    folder = trained("fedsam", [0.5] * 20)
    made.recorded(folder, lambda record: record["description"].update(learning_rate=0.2))
    assert cli.main(["compare", *words]) == 2
    assert message in capsys.readouterr().err
