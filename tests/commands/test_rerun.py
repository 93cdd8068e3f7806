"""``flatfed rerun``: the first rounds alone are those of the whole run, and no existing file is replaced."""

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from harness import assert_same, description, lines, needs, write_problem
from made import recorded
from samples import full
from small_results import flatfed

DEAL = {"dataset": "problem", "classes": 3, "scheme": "iid", "clients": 6}
PROBE = {"every": 2, "images": 8, "rho": 0.05, "m": 4}
EVERY_SECOND = {"every": 2, "sets": ["test", "train", "clients"], "batch_size": 7}
METRICS, RECORD, AGAIN = Path("run/metrics.csv"), Path("run/run.json"), Path("again")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with a data set and FedAvg's ``run``."""
    root = tmp_path_factory.mktemp("whole")
    write_problem(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        train()
    return root


@pytest.fixture(autouse=True)
def place(whole, tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(whole, tmp_path / "place"))


def train(name="fedavg", out="run", **changes):
    """Train a run of six rounds, evaluated in every second; return the lines of its metrics without seconds."""
    settings = {"partition": DEAL, "precision": "float32", "rounds": 6, "evaluation": EVERY_SECOND}
    about = description(name, **{**settings, **needs(name), **changes})
    about["partition"] |= {"dataset": "problem", "classes": 3}
    deal = {**about["partition"], "seed": about["seed"]}
    flatfed("partition", "--spec", json.dumps(deal), "--dataset", "data", "--out", "dealt.npz")
    place = ("--partition", "dealt.npz", "--dataset", "data", "--device", "cpu")
    flatfed("train", "--run", json.dumps(about), "--out", out, *place)
    return lines(Path(out))


@pytest.fixture
def rerun(call):
    return lambda *words, run="run", out="again": call("rerun", run, "--out", out, "--dataset", "data", *words)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *(("fedavg", {"probe": PROBE}), ("dispfl", {})),
        *(pytest.param(name, {}, marks=full) for name in ("fedsmoo", "fedlesam", "dfedsam_mgs", "centralised_sgd")),
    ],
)
def test_the_first_rounds_are_those_of_the_whole_run(rerun, name, changes):
    """Rates that fall, DisPFL's annealing over all rounds, epochs that go on from round to round, evaluations."""
    whole = train(name, **changes)
    for rounds, first in ((3, whole[:1]), (4, whole[:2])):
        status, out, _ = rerun("--rounds", rounds)
        assert status == 0 and lines(AGAIN, "metrics.so-far.csv") == first, "round 3 has no line in the whole run"
        assert f"again/metrics.so-far.csv: all {len(first)} lines are those of {METRICS}, digit for digit" in out
        files = {"partition.npz", ".checkpoint", "metrics.so-far.csv", "run.so-far.json"}
        assert {path.name for path in AGAIN.iterdir()} == files, "no record of a finished run"
    assert rerun("--rounds", "3", run="again", out="again")[0] == 2, "contains a run, though unfinished"
    assert rerun("--rounds", "3", run="again", out="third")[0] == 0
    status, _, err = rerun()
    assert status == 0 and "from round 4 of its checkpoint" in err
    (AGAIN / "partition.npz").unlink()
    assert_same(AGAIN, Path("run"))


def test_a_folder_with_a_run_is_not_written_to(rerun):
    """The folder of the run itself, however it is named, or of another run."""
    shutil.copytree("run", "other")
    Path("link").symlink_to("run")

    def contents():
        return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}

    before = contents()
    for out in ("run", "other/../run", "link", str(Path("run").absolute()), "other"):
        status, _, err = rerun("--rounds", "2", out=out)
        assert status == 2 and f"flatfed rerun: --out {out}: contains a run; choose another folder" in err
        assert contents() == before


def replace(text, **about):
    """Replace the metrics and change the record, with a valid seal."""
    METRICS.write_text(text)
    recorded("run", lambda record: record.update(about))


def shortened(rounds_done=6):
    """Remove the last line of the metrics."""
    replace("".join(METRICS.read_text().splitlines(keepends=True)[:-1]), rounds_done=rounds_done)


@pytest.mark.parametrize(
    ("change", "rounds", "words"),
    [
        (None, 1, f"{METRICS}: has nothing to compare in rounds 1 to 1; its first round is 2"),
        (METRICS.unlink, None, f"{METRICS}: cannot be read (No such file or directory)"),
        (lambda: shutil.rmtree("data"), None, "is not the dataset of the run. "),
    ],
)
def test_metrics_that_cannot_be_compared_are_refused(rerun, change, rounds, words):
    if change:
        change()
    status, _, err = rerun(*(("--rounds", rounds) if rounds else ()))
    assert status == 2 and words in err and not Path("again").exists()


def test_a_digit_in_any_column_is_a_difference(rerun):
    """Also of an unfinished run, as far as it goes. Columns of later versions are named, missing ones differ."""
    shortened(4)
    assert rerun(out="third")[0] == 0 and len(lines(Path("third"), "metrics.so-far.csv")) == 2
    table = pd.read_csv(METRICS, dtype=str)
    for column in ("train_loss", "consistency", "client_train_accuracy"):
        other = table.copy()
        other.loc[1, column] = str(float(other.loc[1, column]) * (1 + 1e-5))
        replace(other.to_csv(index=False))
        assert rerun("--rounds", "3")[0] == 0, "the first line is the same"
        status, out, _ = rerun("--rounds", "4")
        assert status == 1 and f"differs from {METRICS} from round 4 on, there in {column}\n" in out
        assert f"\nlargest relative differences: {column} 1e-05\nOn another kind of CPU" in out
    other.loc[0, column] = "0.25"
    replace(other.to_csv(index=False))
    assert f"differs from {METRICS} from round 2 on, the first compared round, there in" in rerun("--rounds", "3")[1]
    for other, expected, words in (
        (table.drop(columns="consistency"), 0, "not compared: seconds, consistency"),
        (table.assign(median="0.5"), 1, "there in median"),
    ):
        replace(other.to_csv(index=False))
        status, out, _ = rerun("--rounds", "4")
        assert status == expected and words in out
    recorded("run", lambda record: record["libraries"].update(torch="0.4.0"))
    assert re.search("libraries.torch is .*; the run was made with 0.4.0", rerun("--rounds", "4")[2])
