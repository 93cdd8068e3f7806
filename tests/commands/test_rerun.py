"""``flatfed rerun``: the first rounds alone are those of the whole run, and nothing that is there is replaced."""

import csv
import json
import shutil

import pytest

from flatfed import cli
from flatfed.engine.executors import EXECUTORS
from flatfed.runs import source_code
from harness import description, needs, write_problem
from made import recorded
from samples import full

DEAL = {"dataset": "problem", "classes": 3, "scheme": "iid", "clients": 6, "balanced": True}
PROBE = {"every": 2, "images": 8, "rho": 0.05, "m": 4}
EVERY_SECOND = {"every": 2, "sets": ["test", "train", "clients"], "batch_size": 7}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a data set, in which ``train`` and ``rerun`` are called."""
    write_problem(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trained(name="fedavg", out="run", **changes):
    """Train a run of six rounds, evaluated in every second, and return the lines of its metrics without clocks."""
    own = {"partition": DEAL, "precision": "float32", "rounds": 6, "evaluation": EVERY_SECOND}
    about = description(name, **{**own, **needs(name), **changes})
    if about["partition"]["scheme"] == "central":
        about["partition"] = {**about["partition"], "dataset": "problem", "classes": 3}
    with open("run.d.json", "w") as file:
        json.dump(about, file)
    with open("deal.json", "w") as file:
        json.dump({**about["partition"], "seed": about["seed"]}, file)
    assert cli.main(["partition", "--spec", "deal.json", "--dataset", "data", "--out", "dealt.npz"]) == 0
    words = ["--run", "run.d.json", "--partition", "dealt.npz", "--out", out, "--dataset", "data", "--device", "cpu"]
    assert cli.main(["train", *words]) == 0
    return lines(out)


def lines(folder, name="metrics.csv"):
    with open(f"{folder}/{name}", newline="") as file:
        return [{key: value for key, value in line.items() if key != "seconds"} for line in csv.DictReader(file)]


def rerun(*options, out="again"):
    return cli.main(["rerun", "run", "--out", out, "--dataset", "data", *options])


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("fedavg", {}),
        ("fedavg", {"probe": PROBE}),
        ("fedsmoo", {}),
        pytest.param("fedlesam", {}, marks=full),
        pytest.param("scaffold", {}, marks=full),
        ("dispfl", {}),
        pytest.param("dfedsam_mgs", {}, marks=full),
        pytest.param("centralised_sgd", {}, marks=full),
    ],
)
def test_the_first_rounds_are_those_of_the_whole_run(place, capsys, name, changes):
    """Rates that fall, DisPFL's annealing over all rounds, epochs that go on from round to round, evaluations."""
    whole = trained(name, **changes)
    assert [line["round"] for line in whole] == ["2", "4", "6"]
    capsys.readouterr()
    for rounds, made in ((3, whole[:1]), (4, whole[:2])):
        assert rerun("--rounds", str(rounds)) == 0
        assert lines("again", "metrics.so-far.csv") == made, "round 3 has no line in the whole run, and none here"
        said = capsys.readouterr().out
        assert f"again/metrics.so-far.csv: all {len(made)} lines are those of run/metrics.csv, digit for digit" in said
        assert "compared: round, learning_rate, train_loss, test_loss, test_accuracy, clients, " in said
        assert "not compared: seconds" in said
        left = {path.name for path in (place / "again").iterdir()}
        so_far = {"metrics.so-far.csv", "run.so-far.json"}
        assert left == {"partition.npz", ".checkpoint", *so_far}, "no record of a run that is whole"
    assert rerun() == 0
    assert "from round 4 of its checkpoint" in capsys.readouterr().err
    assert lines("again") == whole
    models = [(place / folder / "model.safetensors").read_bytes() for folder in ("run", "again")]
    assert models[0] == models[1]
    records = [json.loads((place / folder / "run.json").read_text()) for folder in ("run", "again")]
    looks = [[{**one, "seconds": None} for one in record["probes"]] for record in records]
    assert looks[0] == looks[1]


def test_fewer_rounds_in_the_description_would_be_another_run(place):
    """What the test above could not tell, were it so: DisPFL anneals by the number of all rounds."""
    whole, short = trained("dispfl"), trained("dispfl", "short", rounds=4)
    assert whole[0] != short[0] or whole[1] != short[1]


@pytest.mark.parametrize("way", ["same", "dots", "link", "link above", "absolute", "linked record"])
def test_the_folder_of_the_run_is_not_written_to(place, capsys, way):
    trained()
    (place / "elsewhere").mkdir()
    (place / "link").symlink_to("run")
    (place / "elsewhere/up").symlink_to("..")
    out = {
        **{"same": "run", "dots": "elsewhere/../run", "link": "link", "link above": "elsewhere/up/run"},
        **{"absolute": str(place / "run"), "linked record": "run"},
    }[way]
    run = "run"
    if way == "linked record":
        (place / "published").mkdir()
        for name in ("run.json", "metrics.csv"):
            (place / "published" / name).symlink_to(f"../run/{name}")
        run = "published"
    before = {path: path.read_bytes() for path in (place / "run").iterdir()}
    assert cli.main(["rerun", run, "--out", out, "--dataset", "data", "--rounds", "2"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"flatfed rerun: --out {out}: contains a run; choose another folder")
    assert {path: path.read_bytes() for path in (place / "run").iterdir()} == before


def test_another_finished_run_is_not_replaced(place, capsys):
    trained(out="other", learning_rate=0.1)
    trained()
    before = {path: path.read_bytes() for path in (place / "other").iterdir()}
    assert rerun(out="other") == 2
    assert "--out other: contains a run; choose another folder, or remove it" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (place / "other").iterdir()} == before


@pytest.mark.parametrize(
    ("rounds", "words"),
    [
        ("0", "expected a whole number above 0"),
        ("-2", "expected a whole number above 0"),
        ("two", "expected a whole number above 0"),
        ("7", "run/metrics.csv: ends with round 6 of 6: no more rounds to compare with"),
        ("1", "none of the first 1 rounds was evaluated"),
    ],
)
def test_rounds_that_cannot_be_compared_are_refused(place, capsys, rounds, words):
    trained()
    try:
        status = rerun(f"--rounds={rounds}")
    except SystemExit as end:
        status = end.code
    assert status == 2 and words in capsys.readouterr().err
    assert not (place / "again").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--rounds", "5"), "ends with round 4 of 6: no more rounds to compare with; --rounds 4 compares"),
        ((), "ends with round 4 of 6: no more rounds to compare with; --rounds 4 compares"),
        (("--rounds", "4"), None),
        (("--rounds", "3"), None),
    ],
)
def test_of_an_unfinished_run_the_rounds_that_are_there(place, capsys, options, words):
    trained()
    metrics = place / "run/metrics.csv"
    metrics.write_text("".join(metrics.read_text().splitlines(keepends=True)[:-1]))
    recorded("run")
    assert rerun(*options) == 2 and not (place / "again").exists()
    assert "run/metrics.csv: ends with round 4, but run.json says rounds_done 6" in capsys.readouterr().err
    recorded("run", lambda record: record.update(rounds_done=4))
    assert rerun(*options) == (2 if words else 0)
    assert words is None or words in capsys.readouterr().err
    assert (place / "again").exists() == (words is None)


def test_a_run_so_far_is_held_against_its_lines_so_far(place, capsys):
    """What a training leaves while it goes on: here one that was told to stop after four rounds."""
    whole = trained()
    assert rerun("--rounds", "4", out="stopped") == 0
    capsys.readouterr()
    words = ["rerun", "stopped", "--out", "again", "--dataset", "data"]
    assert cli.main(words) == 2
    assert "stopped/metrics.so-far.csv: ends with round 4 of 6" in capsys.readouterr().err
    assert cli.main([*words, "--rounds", "3"]) == 0
    assert lines("again", "metrics.so-far.csv") == whole[:1]
    assert "all 1 lines are those of stopped/metrics.so-far.csv, digit for digit" in capsys.readouterr().out


def test_metrics_that_are_not_there_are_missed_before_the_training(place, capsys):
    trained()
    (place / "run/metrics.csv").unlink()
    assert rerun() == 2 and not (place / "again").exists()
    assert "run/metrics.csv: cannot be read (No such file or directory)" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "round\n", "a,b\n1,2\n", "round,test_loss\n2,0.1\n4\n", "\0\0\n", "round\nx\n"])
def test_metrics_that_are_none_are_refused(place, capsys, text):
    trained()
    (place / "run/metrics.csv").write_text(text)
    recorded("run")
    assert rerun() == 2 and not (place / "again").exists()
    assert "flatfed rerun: run/metrics.csv: " in capsys.readouterr().err


@pytest.mark.parametrize("column", ["train_loss", "consistency", "client_train_accuracy"])
def test_a_digit_in_any_column_is_a_difference(place, capsys, column):
    whole = trained()
    rows = [{**line, "seconds": "1.0"} for line in whole]
    rows[1][column] = str(float(rows[1][column]) + 1e-7)
    shutil.copy(place / "run/metrics.csv", place / "kept.csv")
    with open(place / "run/metrics.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    recorded("run")
    assert rerun("--rounds", "3") == 0, "the first line is the same"
    assert rerun("--rounds", "4") == 1
    said = capsys.readouterr().out
    assert "differs from run/metrics.csv from round 4 on" in said and f"differences in this round: {column};" in said


def test_columns_of_later_versions_are_named_and_missing_ones_differ(place, capsys):
    trained()
    text = (place / "run/metrics.csv").read_text()
    table = [line.split(",") for line in text.splitlines()]
    gone = table[0].index("consistency")
    older = [",".join(fields[:gone] + fields[gone + 1 :]) for fields in table]
    (place / "run/metrics.csv").write_text("\n".join(older) + "\n")
    recorded("run")
    assert rerun("--rounds", "4") == 0
    assert "not compared: seconds, consistency" in capsys.readouterr().out
    newer = [",".join([*fields, "median" if fields is table[0] else "0.5"]) for fields in table]
    (place / "run/metrics.csv").write_text("\n".join(newer) + "\n")
    recorded("run")
    assert rerun("--rounds", "4") == 1
    assert "differences in this round: median" in capsys.readouterr().out


def test_a_run_that_diverged_is_compared_as_far_as_it_came(place, capsys):
    """A rate of 1e6: no line is written after the first that is finite, if any."""
    whole = trained(learning_rate=1e6, evaluation={**EVERY_SECOND, "every": 1}, clip_norm=None)
    record = json.loads((place / "run/run.json").read_text())
    assert record["diverged_at"] is not None
    assert rerun() == 0 and lines("again") == whole
    shutil.rmtree(place / "again")
    last = len(whole)
    assert rerun("--rounds", str(last + 1)) == 2
    assert f"(it diverged in round {record['diverged_at']})" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("executors", "commit", "present", "words"),
    [
        ({"cpu": "stacked"}, "0123456789ab", "stacked", "0123456789ab (`git checkout 0123456789ab` repeats"),
        ({"cpu": "retired"}, "0123456789ab and changes since", "sequential", "0123456789ab and changes since"),
        ({"cpu": "retired", "cuda": "retired"}, None, "sequential", "unknown"),
    ],
)
def test_a_removed_executor_is_replaced_and_reported(place, capsys, executors, commit, present, words):
    whole = trained()

    def change(record):
        record["description"]["executor"] |= executors
        record |= {"executor": "retired", "commit": commit} if commit else {"executor": "retired"}
        if commit is None:
            record.pop("commit", None)

    recorded("run", change)
    capsys.readouterr()
    status = rerun()
    printed = capsys.readouterr()
    assert f"this version has no executor 'retired'; the run was made at commit {words}" in printed.err
    assert f"; the rerun uses executor '{present}', so its digits will differ" in printed.err
    assert status == (0 if lines("again") == whole else 1)
    assert ("digit for digit" if status == 0 else "differs from") in printed.out
    assert json.loads((place / "again/run.json").read_text())["executor"] == present


def test_a_removed_executor_of_the_other_device_is_ignored(place, capsys):
    trained(executor={"cpu": "stacked", "cuda": "retired"})
    assert rerun() == 0
    assert "retired" not in capsys.readouterr().err


def test_a_removed_executor_in_a_description_is_refused_with_the_present_ones(place, capsys):
    trained()
    about = json.loads((place / "run.d.json").read_text())
    (place / "run.d.json").write_text(json.dumps({**about, "executor": {"cpu": "retired", "cuda": "stacked"}}))
    files = ["--run", "run.d.json", "--partition", "dealt.npz", "--out", "other", "--dataset", "data"]
    assert cli.main(["train", *files, "--device", "cpu"]) == 2
    assert f"unknown executor 'retired'; known: {', '.join(sorted(EXECUTORS))}" in capsys.readouterr().err


def test_a_run_records_the_commit_of_its_code(place):
    trained()
    record = json.loads((place / "run/run.json").read_text())
    assert record.get("commit") == record["sessions"][-1]["commit"] == source_code.commit()
