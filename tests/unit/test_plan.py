"""``flatfed plan``: runs counted once, costs worked out by hand from runs that were measured."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

import made
from flatfed import cli
from flatfed.commands import configuration, plan_counted, plan_measured, plan_needs, plan_summary
from flatfed.commands.plan_costs import Costs
from flatfed.commands.plan_counted import images_evaluated, images_seen
from flatfed.commands.plan_measured import Measured
from flatfed.engine.memory.sizes import Sizes
from flatfed.experiment import tuning
from flatfed.runs.places import DEFAULT

PROTOCOL, SPLIT = "fedsmoo-cifar10", "dir0.6-100"
COLUMNS = "cifar10-dir0.6-100, cifar10-dir0.6-200"
DATASETS = {name: {"train": 50_000, "test": 10_000} for name in ("cifar10", "cifar100")}


@pytest.fixture(scope="module")
def experiment():
    return configuration.load(None)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder with a configuration of two columns of one table at paper scale, on the CPU."""
    monkeypatch.chdir(tmp_path)
    text = f"scale: paper\ndevice: cpu\ntables:\n  - {{table: fedsmoo2023_T1, columns: [{COLUMNS}]}}\nfigures: []\n"
    Path("config.yaml").write_text(text)
    return tmp_path


def record(run, seconds: float, **changes) -> None:
    """Write the record of a finished run that took so many seconds a round."""
    rounds = run.description["rounds"]
    about = {
        "rounds_done": rounds, "seconds": seconds * rounds,
        "device": "cpu", "host": {"gpu": None, "processor": "test machine"}, "parameters": 1000,
        "peak_memory_bytes": 3_000_000, "peak_device_memory_bytes": None,
        "description": run.description, **changes,
    }  # fmt: skip
    made.run(run.path, {"round": [about["rounds_done"]]}, **about)


def plan(*arguments: str) -> dict:
    assert cli.main(["plan", "--config", "config.yaml", "--json", "plan.json", *arguments]) == 0
    return json.loads(Path("plan.json").read_text())["plan"]


def test_images_of_a_round_by_hand(experiment):
    """100 clients of 500 images, ten active, 5 epochs: 25,000. 200 at 5 % are as many with half the images."""
    seen = {
        (split, row): images_seen(experiment.run("paper", PROTOCOL, split, row, 1).description, DATASETS)
        for split in (SPLIT, "dir0.6-200")
        for row in ("fedavg", "fedsam")
    }
    assert seen == {
        (SPLIT, "fedavg"): 25_000, (SPLIT, "fedsam"): 50_000,
        ("dir0.6-200", "fedavg"): 12_500, ("dir0.6-200", "fedsam"): 25_000,
    }  # fmt: skip


def test_seconds_are_measured_scaled_or_unknown(experiment):
    def run(split, row, protocol=PROTOCOL):
        return experiment.run("paper", protocol, split, row, 2)

    other = experiment.run("paper", PROTOCOL, SPLIT, "fedavg", 1)
    known = [Measured(other.description, 4.0, "cpu", "m", 1000, None, None)]
    costs = Costs(known, "cpu", DATASETS)
    assert costs.seconds(run(SPLIT, "fedavg")) == (4.0, 0.0, "measured"), "another seed of the same"
    assert costs.seconds(run(SPLIT, "fedsam")) == (8.0, 0.0, "scaled")
    assert costs.seconds(run("dir0.6-200", "fedavg")) == (2.0, 0.0, "scaled")
    assert costs.seconds(run(SPLIT, "fedavg", "fedsmoo-cifar100")) == (None, 0.0, "unknown"), "other classes and batch"
    assert Costs(known, "cuda", DATASETS).seconds(run(SPLIT, "fedavg")) == (None, 0.0, "unknown")
    own = [*known, Measured(run(SPLIT, "fedsam").description, 6.0, "cpu", "m", 1000, None, None)]
    found, _, how = Costs(own, "cpu", DATASETS).seconds(run("dir0.6-200", "fedsam"))
    assert (found, how) == (3.0, "scaled"), "from the same algorithm where there is one"


def test_a_plan_by_hand(here, experiment, capsys):
    """Sixteen cells, two seeds: 32 runs. FedAvg's two on 100 clients are done at 1 s a round, one run is of old."""
    rows = experiment.tables["fedsmoo2023_T1"].rows
    for seed in (1, 2):
        record(experiment.run("paper", PROTOCOL, SPLIT, "fedavg", seed), 1.0)
    old = experiment.run("paper", PROTOCOL, SPLIT, "fedcm", 1)
    record(old, 1.0, description={**old.description, "rounds": 10})
    begun = experiment.run("paper", PROTOCOL, SPLIT, "feddyn", 1)
    Path(begun.path).mkdir(parents=True)
    Path(begun.path, "checkpoint.part").touch()
    total = plan("--keep-models", "all")["total"]
    assert (total["cells"], total["runs"]) == (16, 32)
    assert [total[key] for key in ("finished", "begun", "stale", "missing")] == [2, 1, 1, 28]
    # Rounds of 1 s on 100 clients and half a second on 200, twice that for the three rows with two gradients a step.
    double = {"fedsam", "mofedsam", "fedsmoo"}
    by_hand = sum((2 if row in double else 1) * (1.0 + 0.5) * 2 * 800 for row in rows) - 2 * 800
    assert total["seconds"] == pytest.approx(by_hand)
    assert (total["measured"], total["scaled"], total["unknown"]) == (2, 28, 0), "FedCM's two seeds"
    rest = 160 * 800 + 6000
    assert total["disk_bytes"] == 32 * (4 * 1000 + rest) and total["models"] == 32
    assert total["client_state_bytes"] == 2 * 200 * 4 * 1000, "FedSMOO: two vectors for each of 200 clients"
    assert total["host_memory_bytes"] == 3_000_000
    assert "32 runs: 2 there, 1 begun, 1 stale, 30 to make" in capsys.readouterr().out
    assert plan()["total"]["disk_bytes"] == 32 * rest, "no analysis reads a model"
    Path("config.yaml").write_text(Path("config.yaml").read_text() + "keep_models: all\n")
    assert plan()["total"]["disk_bytes"] == 32 * (4 * 1000 + rest), "as config.yaml says"


def test_memory_is_worked_out_for_the_largest_run(here, experiment, capsys):
    """FedSMOO on 200 clients, by hand, from a measured row of 1000 numbers; FedAdam keeps its dead taps."""
    record(experiment.run("paper", PROTOCOL, SPLIT, "fedavg", 1), 1.0, row=1000, parameters=3000)
    record(experiment.run("paper", PROTOCOL, SPLIT, "fedadam", 1), 1.0, row=3000, parameters=3000)
    largest = plan()["total"]["largest"]
    assert Path(largest["run"]).parts[-3:-1] == ("dir0.6-200", "fedsmoo")
    present = 20  # ten of 200 on average, and three deviations of 3.1
    assert largest["state"] == 200 * 2 * 4000
    assert largest["server"] == (3 + 2) * 4000
    assert largest["others"] == present * (1 + 1 + 2) * 4000, "model, dual, and both vectors of before the round"
    assert largest["rows"] == (1 + 2 + 2 + 3 + 2) * 4000, "model, state, scratch, a gradient, perturbations"
    assert largest["images"] == 4 * 1000 * 3 * 3 * 32 * 32, "an evaluation's images in three forms"
    assert largest["data"] == 50_000 * (3072 + 8)
    said = capsys.readouterr().out
    assert "worked out for fedsmoo-cifar10/dir0.6-200/fedsmoo/seed1: at most " in said
    assert "client state in the host's memory where 3.2 MB are free, else in a file" in said
    assert "training images 154.0 MB, memory-mapped" in said
    found = Costs(plan_measured.measured(DEFAULT, "paper")[0], "cpu", DATASETS)
    assert found.sizes(experiment.run("paper", PROTOCOL, SPLIT, "fedadam", 2)).server == (3 + 2) * 4 * 3000
    sizes = {each.name: largest[each.name] for each in dataclasses.fields(Sizes)}
    assert "stays on the GPU where 3.2 MB are free" in "".join(plan_summary.memory_lines("x", Sizes(**sizes), "cuda"))


def test_memory_of_a_model_that_was_never_trained(here):
    """ResNet-18's rows without dead taps: 4,234,826 numbers and one more, two vectors for each of 200 clients."""
    largest = plan()["total"]["largest"]
    assert largest["state"] == 200 * 2 * 4 * 4_234_827 and Path(largest["run"]).parts[-2] == "fedsmoo"
    assert largest["images"] > 4 * 1000 * 3 * 3 * 32 * 32


def test_the_share_of_evaluation(here, experiment, capsys):
    run = experiment.run("paper", PROTOCOL, SPLIT, "fedavg", 1)
    record(run, 2.0, seconds_evaluation=800 * 0.5)
    total = plan()["total"]
    # FedAvg's 1.5 s of training in other rows and on 200 clients; half a second of evaluation everywhere.
    double = {"fedsam", "mofedsam", "fedsmoo"}
    rows = experiment.tables["fedsmoo2023_T1"].rows
    training = sum((2 if row in double else 1) * (1.5 + 0.75) * 2 * 800 for row in rows) - 1.5 * 800
    assert total["evaluation_seconds"] == pytest.approx(31 * 0.5 * 800)
    assert total["seconds"] == pytest.approx(training + 31 * 0.5 * 800)
    share = round(100 * total["evaluation_seconds"] / total["seconds"])
    assert f"hours of one job on the CPU, {share} % of it evaluation (1 measured, " in capsys.readouterr().out
    timing = Path(run.path.replace("/runs/", "/analysis/")).parent / "timing.json"
    timing.parent.mkdir(parents=True)
    made.timing(timing, run.description, 2.0, 0.5)
    Path(run.path, "run.json").unlink()
    (measured,), _ = plan_measured.measured(DEFAULT, "paper")
    assert measured.evaluation == pytest.approx(0.75)


def test_nodes_of_dispfl_keep_two_masks_beside_their_model(experiment):
    """The one that they share under and the new one: three vectors where DFedSAM's nodes keep one."""

    def state(row):
        run = experiment.run("paper", "dfedsam-cifar10", "dir0.6-100-norep-clique", row, 1)
        measured = Measured(run.description, 4.0, "cpu", "m", 1000, None, None, row=1000)
        return Costs([measured], "cpu", DATASETS).sizes(run).state

    assert state("dispfl") == 3 * 100 * 4000
    assert state("dfedsam") == 100 * 4000


def test_what_nodes_evaluate_of_their_own_counts(experiment):
    """DFedSAM's Table 1: 10,000 test and 50,000 training images every fifth round, 50,000 more without a server."""

    def run(split, row):
        return experiment.run("paper", "dfedsam-cifar10", split, row, 1)

    server, peers = run("iid-100-norep", "fedavg"), run("iid-100-norep-clique", "dfedavg")
    found = [images_evaluated(one.description, DATASETS) for one in (server, peers)]
    dealt = {**peers.description, "partition": {**peers.description["partition"], "client_test": 100}}
    assert images_evaluated(dealt, DATASETS) == 120_000 / 5, "100 test images of each of 100 nodes"
    assert found == [60_000 / 5, 110_000 / 5]
    known = [Measured(server.description, 4.0, "cpu", "m", 1000, None, None, None, 0.25)]
    costs = Costs(known, "cpu", DATASETS)
    assert costs.seconds(server) == (4.0, 1.0, "measured")
    seconds, evaluation, how = costs.seconds(peers)
    assert how == "scaled" and seconds == pytest.approx(10 * 3.0 + 110 / 60), "ten times the clients train"
    assert evaluation == pytest.approx(110 / 60)
    clients = experiment.run("paper", "fedsam-cifar10", "iid-100-p20", "fedsam", 1).description
    assert images_evaluated(clients, DATASETS) == 60_000
    plain = experiment.run("paper", PROTOCOL, SPLIT, "fedavg", 1).description
    assert images_evaluated(plain, DATASETS) == 10_000
    held_out = {**plain, "validation": 0.1, "evaluation": {**plain["evaluation"], "sets": ["validation"]}}
    assert images_evaluated(held_out, DATASETS) == 5_000


def test_a_model_that_was_not_kept_is_missing_where_an_analysis_reads_it(here, experiment):
    run = experiment.run("paper", PROTOCOL, SPLIT, "fedavg", 1)
    record(run, 1.0)
    assert (plan_needs.state(run), plan_needs.state(run, analysed=True)) == ("finished", "missing")
    Path(run.path, "model.safetensors").touch()
    assert plan_needs.state(run, analysed=True) == "finished"


def test_runs_that_tables_share_count_once(here, capsys):
    both = plan("fedsmoo2023_T1", "fedsmoo2023_T6")
    assert both["fedsmoo2023_T1"]["runs"] == 32, "the columns that the configuration names"
    assert both["fedsmoo2023_T6"]["runs"] == 128 and both["total"]["runs"] == 32 + 128, "other splits"
    assert both["total"]["cells"] == 16 + 128 and both["total"]["counted"] == 32 + 128
    assert "(160 counted)" in capsys.readouterr().out
    whole = plan("fedsmoo2023_T1", "fedsmoo2023_T6", "--config", "tables=[fedsmoo2023_T1]")
    assert whole["fedsmoo2023_T1"]["runs"] == whole["total"]["runs"] == 256, "all runs of Table 6 are Table 1's"


def test_operations_of_a_model_by_hand():
    """Kernels 3 x 3, 3 to 32 channels at 30 x 30 and 32 to 64 at 13 x 13, dense layers of 2304, 128 and 10."""
    first = 2 * 27 * 32 * 30**2
    forward = first + 2 * (288 * 64 * 13**2 + 2304 * 128 + 128 * 10)
    options = json.dumps({"pooling": "each", "dropout1": 0.0, "dropout2": 0.0})
    found = plan_counted.of_image("cnn", options, (3, 32, 32), 10)
    assert found == (3 * forward - first, forward), "twice as many backwards, but none to the images"


def test_hours_are_counted_where_nothing_like_it_was_measured(here, experiment, capsys):
    """FedAvg's round of 25,000 images and an evaluation of 10,000 test images, at a nominal speed, then a known one."""
    run = experiment.run("paper", PROTOCOL, SPLIT, "fedavg", 1)
    model = run.description["model"]
    gradient, forward = plan_counted.of_image(model["name"], json.dumps(model["options"]), (3, 32, 32), 10)
    operations = 25_000 * gradient + 10_000 * forward
    costs = Costs([], "cuda", DATASETS)
    assert costs.seconds(run) == (None, 0.0, "unknown") and costs.expected(run).way == "counted"
    assert costs.expected(run).round == pytest.approx(operations / 10e12)
    assert costs.expected(run).evaluation == pytest.approx(10_000 * forward / 10e12)
    other = experiment.run("paper", "fedsmoo-cifar100", SPLIT, "fedavg", 1)
    costs = Costs([Measured(other.description, 9.0, "cuda", "m", 1000, None, None)], "cuda", DATASETS)
    speed = sum(costs.operations(other.description)) / 9.0
    assert costs.expected(run).round == pytest.approx(operations / speed), "the speed of what was measured"
    preview = experiment.run("preview", PROTOCOL, SPLIT, "fedavg", 1)
    assert costs.expected(preview) == (None, 0.0, "unknown"), "there it is not the operations that take the time"
    total = plan()["total"]
    assert (total["counted"], total["unknown"]) == (32, 0) and total["seconds"] > 0
    assert "at 50 GFLOP/s; a device that reaches another" in capsys.readouterr().out
    assert json.loads(Path("plan.json").read_text())["requests"] == {}, "no job asks a cluster for counted minutes"


def test_figures_are_planned_too_and_an_unknown_name_is_neither(here, capsys):
    both = plan("fedsmoo2023_T1", "fedsmoo2023_F7")
    assert (both["fedsmoo2023_F7"]["cells"], both["fedsmoo2023_F7"]["runs"]) == (0, 64)
    assert both["total"]["runs"] == 32 + 64 - 16, "Figure 7 has runs of Table 1, those of dir0.6-100 too"
    surfaces = plan("fedlesam2024_F3", "--keep-models", "needed")["total"]
    assert surfaces["models"] == surfaces["runs"] > 0, "a loss surface needs the model"
    capsys.readouterr()
    assert cli.main(["plan", "--config", "config.yaml", "fedsmoo2023_F77"]) == 2
    said = capsys.readouterr().err
    assert "unknown table or figure 'fedsmoo2023_F77'; did you mean 'fedsmoo2023_F7'?" in said
    assert said.count("cifar10_cnn") == 1, "a name of both, once"


def test_a_diverged_run_is_there_and_measures_nothing(here, experiment):
    run = experiment.run("paper", PROTOCOL, SPLIT, "fedavg", 1)
    record(run, 1.0, diverged_at=7, rounds_done=6)
    total = plan()["total"]
    assert total["finished"] == 1 and total["counted"] == 31


@pytest.mark.parametrize(
    ("content", "state"),
    [
        ('{"description": ', "damaged"),
        ("{}", "damaged"),
        ("[]", "damaged"),
        ("", "damaged"),
        (None, "damaged"),
        ({"host": None}, "finished"),
        ({"description": {}}, "stale"),
    ],
)
def test_a_damaged_record_is_named_and_the_others_count(here, experiment, capsys, content, state):
    damaged, whole = (experiment.run("paper", PROTOCOL, SPLIT, "fedavg", seed) for seed in (1, 2))
    file = Path(damaged.path, "run.json")
    record(damaged, 1.0, **(content if isinstance(content, dict) else {}))
    if content is None:
        file.unlink()
        file.mkdir()
    elif isinstance(content, str):
        file.write_text(content)
    record(whole, 3.0)
    total = plan()["total"]
    assert (total["finished"], total[state]) == ((2, 2) if state == "finished" else (1, 1))
    assert total["seconds"] > 0, "from the run that is whole"
    found = capsys.readouterr()
    assert found.err.count(f"{file}: not the record of a run") == 1 and "Delete it" in found.err
    assert (f", 1 {state}" in found.out) == (state != "finished")


def test_runs_of_an_algorithm_that_is_gone_are_left_out(here, experiment, capsys):
    """The folder of an own algorithm is taken out of algorithm_folders: what it trained still lies in results."""
    run = experiment.run("paper", PROTOCOL, SPLIT, "fedavg", 1)
    record(run, 1.0)
    for seed in (1, 2):
        gone = dataclasses.replace(
            run,
            path=run.path.replace("/fedavg/seed1", f"/myfed/seed{seed}"),
            description={**run.description, "algorithm": "myfed", "update": {"name": "myfed", "params": {}}},
        )
        record(gone, 1.0)
    total = plan()["total"]
    assert (total["finished"], total["runs"]) == (1, 32) and total["largest"] is not None
    assert "2 of algorithm 'myfed', which has no file any more; left out" in capsys.readouterr().err


def test_runs_on_a_data_set_that_is_gone_tell_no_seconds(here, experiment):
    run = experiment.run("paper", PROTOCOL, SPLIT, "fedavg", 1)
    other = {**run.description, "dataset": {**run.description["dataset"], "name": "mine"}, "split": "old"}
    record(dataclasses.replace(run, path=run.path.replace(SPLIT, "old"), description=other), 1.0)
    assert (plan()["total"]["counted"], plan()["total"]["disk_unknown"]) == (32, 0)


def test_cells_are_listed_by_id(here, capsys, experiment):
    path = Path(experiment.cell("paper", "fedsmoo2023_T1", "cifar10-dir0.6-200", "fedcm").path)
    path.parent.mkdir(parents=True)
    path.touch()
    assert cli.main(["plan", "--config", "config.yaml", "--cells"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == 16 and "fedsmoo2023_T1/cifar10-dir0.6-200/fedcm  made" in listed
    assert "fedsmoo2023_T1/cifar10-dir0.6-100/fedcm  not made" in listed


def test_planning_what_was_measured_imports_no_torch(here, experiment):
    record(experiment.run("paper", PROTOCOL, SPLIT, "fedavg", 1), 1.0)
    script = (
        "import sys; from flatfed import cli; cli.main(['plan', '--config', 'config.yaml']); "
        "print('torch' in sys.modules)"
    )
    source = str(Path(cli.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": source}, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "False"


def test_tuning_runs_are_counted_each_once(here, capsys):
    """FedSAM's Table 1: three data sets; four rows with four rates, three with four rates and five weights."""
    sums = plan("--tuning", "fedsam2022_T1", "fedsam2022_F1", "fedsmoo2023_T1")
    each = 4 * 4 + 3 * 4 * 5
    assert sums["fedsam2022_T1"]["runs"] == 3 * each and sums["total"]["missing"] == sums["total"]["runs"] == 3 * each
    assert sums["fedsmoo2023_T1"]["runs"] == 0 and sums["total"]["models"] == 0
    assert f"fedsam2022_T1, paper scale, tuning: {3 * each} runs: 0 there" in capsys.readouterr().out
    experiment = configuration.load(["config.yaml"])
    found = tuning.search(experiment, "paper", "fedsam-cifar10", "dir0.6-100-p20", "fedavg")
    record(tuning.run(experiment, found, "learning_rate=0.1"), 2.0)
    sums = plan("--tuning", "fedsam2022_T1")
    assert (sums["fedsam2022_T1"]["finished"], sums["fedsam2022_T1"]["measured"]) == (1, 3)


def test_requests_are_of_the_longest_and_largest_run_of_a_protocol(here, experiment):
    """FedSAM's two gradients a step take 2 s a round where FedAvg's take 1: 800 rounds, 26.67 minutes."""
    for seed in (1, 2):
        record(experiment.run("paper", PROTOCOL, SPLIT, "fedavg", seed), 1.0, peak_memory_bytes=seed * 10**9)
    plan()
    (request,) = json.loads(Path("plan.json").read_text())["requests"].items()
    assert request == (PROTOCOL, {"minutes": 26.67, "memory_bytes": 2 * 10**9})
