"""The Hessian of a finished run: its file, interruptions, what is refused, with nothing half-written."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.func import functional_call
from torch.nn.functional import cross_entropy

import made
from flatfed import cli
from flatfed.analysis import trained_model
from flatfed.analysis.hessian import eigen, estimates, pyhessian_estimates
from flatfed.analysis.hessian import measure as hessians
from flatfed.analysis.hessian.summary import HessianSettings
from flatfed.analysis.trained_model import AnalysisInputs
from flatfed.engine.job.train import train
from flatfed.engine.precision import SWITCHES
from flatfed.errors import DataError, FlatFedError
from flatfed.files import write_sealed
from flatfed.plan.metrics import METRICS
from flatfed.runs import curvature
from flatfed.runs.curvature import Converged, Hessian
from flatfed.runs.run_config import RunConfig
from flatfed.tables import readings
from harness import Reference, description, write_problem

FEW = {
    **{"images": 12, "parts": 3, "micro_batch": 128, "block": 4, "precision": "float32", "seed": 0},
    **{"top": 1, "residual": 0.1, "products": 600, "trace_error": 0.05, "vectors": 8},
    "pyhessian": False,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("hessian")
    write_problem(folder)
    for name, precision in (("run", "float64"), ("single", "float32")):
        spec = description("fedavg", rounds=2, precision=precision)
        train(RunConfig(**spec), folder / "data", folder / "partition.npz", folder / name, device="cpu")
    return folder


@pytest.fixture
def problem(trained, tmp_path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(trained, tmp_path / "problem"))


ACCURATE = {"precision": "float64", "top": 2, "residual": 1e-5}


def inputs(problem: Path) -> AnalysisInputs:
    return AnalysisInputs(problem / "data", problem / "partition.npz", device="cpu")


def make(problem: Path, out: Path, run: str = "run", **settings) -> Hessian:
    hessians.hessian(problem / run, inputs(problem), out, HessianSettings(**{**FEW, **settings}))
    return curvature.read(out)


def exact(problem: Path, run: str, dealt: np.ndarray) -> torch.Tensor:
    """The eigenvalues, falling, of the whole Hessian on the images ``dealt``, by torch.func."""
    reference = Reference(problem, description("fedavg"))
    weights = {name: value.double() for name, value in load_file(problem / run / "model.safetensors").items()}
    order = [name for name, _ in reference.model.named_parameters()]
    sizes = [weights[name].numel() for name in order]
    x, y = reference.x[dealt], reference.y[dealt]

    def loss(row):
        parts = {n: p.view_as(weights[n]) for n, p in zip(order, row.split(sizes), strict=True)}
        return cross_entropy(functional_call(reference.model, parts, (x,)), y)

    whole = torch.func.hessian(loss)(torch.cat([weights[name].reshape(-1) for name in order]))
    return torch.linalg.eigvalsh(whole).flip(0)


@pytest.fixture(scope="module")
def truth(trained) -> torch.Tensor:
    return exact(trained, "run", np.load(trained / "partition.npz")["indices"])


def test_a_run_in_float64_against_its_whole_hessian(trained, tmp_path, truth):
    found = make(trained, tmp_path / "h.json", **ACCURATE, images=None, micro_batch=20, pyhessian=True, vectors=64)
    np.testing.assert_allclose(found.unscaled.eigenvalues, truth[:2], rtol=1e-6)
    assert found.unscaled.top_eigenvalue == found.unscaled.eigenvalues[0] and found.unscaled.converged.eigenvalues
    assert abs(found.unscaled.trace - float(truth.sum())) <= 3 * found.unscaled.trace_standard_error
    assert found.pyhessian.top_eigenvalue == pytest.approx(float(truth[0]), rel=1e-3)
    assert found.agreement.trace.within
    assert found.about.run == "problem/test/fedavg/seed3" and len(found.about.digests.model) == 64
    assert (found.about.images, found.about.images_of, found.about.set) == (49, 49, "train")
    assert found.about.parameters == len(truth) and found.about.settings["residual"] == 1e-5


def test_float32_and_micro_batches_give_the_same_but_for_rounding(trained, tmp_path):
    double = make(trained, tmp_path / "a.json", "single", images=None, precision="float64", residual=1e-4)
    for size in (7, 49):
        single = make(trained, tmp_path / f"{size}.json", "single", images=None, micro_batch=size, residual=1e-4)
        assert single.about.precision == "float32"
        np.testing.assert_allclose(single.unscaled.eigenvalues, double.unscaled.eigenvalues, rtol=1e-4)
        assert single.unscaled.trace == pytest.approx(double.unscaled.trace, rel=1e-3)


def test_the_same_call_gives_the_same_bytes_another_seed_others(trained, tmp_path):
    for name in ("a", "b"):
        make(trained, tmp_path / name, pyhessian=True)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    one, other = (make(trained, tmp_path / str(seed), images=9, seed=seed) for seed in (1, 2))
    assert one.about.images == 9 and one.about.images_of == 49
    assert one.unscaled.top_eigenvalue != pytest.approx(other.unscaled.top_eigenvalue, rel=1e-3)


def test_the_subset_is_that_of_the_seed(trained, tmp_path):
    found = make(trained, tmp_path / "h.json", **ACCURATE, images=9, seed=4)
    chosen = trained_model.load(trained / "run", inputs(trained)).draw_images("train", 9, 4)
    np.testing.assert_allclose(found.unscaled.eigenvalues, exact(trained, "run", chosen.numpy())[:2], rtol=1e-6)


def test_parts_are_the_images_split_at_random(trained):
    """Positions stand client by client: in their order, a part would be a client, and no sample of all."""
    loaded = trained_model.load(trained / "run", inputs(trained))
    index = loaded.draw_images("train", 40, 4)
    splits = []
    for seed in (4, 4, 5):
        settings = HessianSettings(**{**FEW, "micro_batch": 5, "seed": seed})
        products, scaled = hessians._products(loaded, index, 3, settings)
        parts = [torch.cat(part.parts) for part in products.parts]
        assert sorted(torch.cat(parts).tolist()) == index.tolist() and [len(part) for part in parts] == [14, 13, 13]
        assert all((part.diff() < 0).any() for part in parts)
        assert [torch.cat(part.parts).tolist() for part in scaled.parts] == [part.tolist() for part in parts]
        splits.append([part.tolist() for part in parts])
    assert splits[0] == splits[1] != splits[2]


def test_the_settings_of_torch_are_as_before(trained, tmp_path):
    make(trained, tmp_path / "h.json")
    assert {switch.fp32_precision for switch in SWITCHES} == {"tf32"}  # what the engine sets


@pytest.mark.parametrize("stopped", ["trace", "pyhessian"])
def test_an_interrupted_call_goes_on_to_the_same_bytes(trained, tmp_path, monkeypatch, stopped):
    settings = {"pyhessian": True}
    make(trained, tmp_path / "whole.json", **settings)
    module, name = {
        "trace": (estimates, "trace"),
        "pyhessian": (pyhessian_estimates, "estimate"),
    }[stopped]

    def stops(*_, **__):
        raise KeyboardInterrupt

    out = tmp_path / "two" / "h.json"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, name, stops)
        make(trained, out, **settings)
    stages = ["eigenvalues", "trace", "scaled-eigenvalues", "scaled-trace", "pyhessian"]
    kept = stages.index(stopped)
    assert not out.exists() and len(list(out.parent.glob(".*.stage"))) == kept
    make(trained, out, seed=1)  # neither takes these estimates nor loses them
    assert len(list(out.parent.glob(".*.stage"))) == kept
    find, sought = eigen.top, []
    with monkeypatch.context() as patch:
        patch.setattr(eigen, "top", lambda products, *a, **k: sought.append(products) or find(products, *a, **k))
        make(trained, out, **settings)
    assert [products.scale is None for products in sought] == [False] * (stopped == "trace")
    assert out.read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert [path.name for path in out.parent.iterdir()] == ["h.json"]


def test_damaged_estimates_are_made_again(trained, tmp_path, monkeypatch):
    make(trained, tmp_path / "whole.json")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(curvature, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        make(trained, tmp_path / "h.json")
    for path in tmp_path.glob(".*.stage"):
        path.write_bytes(path.read_bytes()[:20])
    make(trained, tmp_path / "h.json")
    assert (tmp_path / "h.json").read_bytes() == (tmp_path / "whole.json").read_bytes()


def test_what_has_not_converged_or_does_not_agree_is_said(trained, tmp_path, capsys, monkeypatch):
    found = make(trained, tmp_path / "h.json", products=4, residual=1e-9, vectors=2, trace_error=1e-9)
    assert found.unscaled.converged == found.scaled.converged == Converged(eigenvalues=False, trace=False)
    assert found.warnings[0].startswith("the eigenvalues have not converged")
    assert found.warnings[1].startswith("the trace has not converged") and "after 2 vectors" in found.warnings[1]
    assert [said.startswith(curvature.SCALED) for said in found.warnings] == [False, False, True, True]
    assert found.warnings_about("hessian_trace") == found.warnings[1:2]
    assert found.warnings_about("hessian_scaled_top_eigenvalue") == found.warnings[2:3]
    assert found.warnings[0] in capsys.readouterr().err
    call = pyhessian_estimates.estimate

    def other(*given, **settings):
        found = call(*given, **settings)
        return found.model_copy(update={"top_eigenvalue": 2 * found.top_eigenvalue, "trace_converged": True})

    monkeypatch.setattr(pyhessian_estimates, "estimate", other)
    found = make(trained, tmp_path / "other.json", pyhessian=True, vectors=64, trace_error=0.9)
    assert len(found.warnings) == 1 and "further apart than their errors allow" in found.warnings[0]


def test_tables_read_the_file(trained, tmp_path):
    found = make(trained, tmp_path / "h.json", pyhessian=True)
    for name, (scaled, field) in curvature.METRICS.items():
        (number,) = made.cell_numbers(
            **{"table": "t", "column": "x", "row": "fedavg", "scale": "paper", "metric": name, "unit": "number"},
            **{"target": None, "window": 1, "rounds": 2, "seeds": [1], "paper": None, "compare": "values"},
            **{"analyses": [str(tmp_path / "h.json")], "runs": [str(trained / "run")]},
        )
        (one,) = readings.read_source(number, number.runs, None)
        assert METRICS[name].function(one.reading) == getattr(found.scaled if scaled else found.unscaled, field)
        beside = curvature.pyhessian_mean([found], name)
        if scaled:
            assert beside is None
            continue
        assert beside.value == getattr(found.pyhessian, field)
        assert beside.within == getattr(found.agreement, field).within
    alone = make(trained, tmp_path / "alone.json")
    assert alone.pyhessian_value("hessian_trace") is None
    assert curvature.pyhessian_mean([alone], "hessian_trace") is None


def refused(problem: Path, message: str, **settings) -> None:
    """Assert that the call is refused with ``message`` and leaves no file."""
    out = problem / "out" / "h.json"
    with pytest.raises(FlatFedError, match=message):
        make(problem, out, **settings)
    assert not out.parent.exists()


def test_weights_so_large_that_products_overflow(problem):
    tensors = {name: value * 1e30 for name, value in load_file(problem / "single" / "model.safetensors").items()}
    save_file(tensors, problem / "single" / "model.safetensors")
    made.recorded(problem / "single")
    refused(problem, "a Hessian-vector product is not finite", run="single")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"top": 1444}, "top: 1444 eigenvalues, but its model has 1443 parameters"),
        (
            {"images": 7, "parts": 8},
            "images: 7 of its 49 training images, but they are split into 8 parts.* --parts",
        ),
    ],
)
def test_settings_that_mean_nothing(trained, tmp_path, settings, message):
    with pytest.raises(FlatFedError, match=message):
        make(trained, tmp_path / "out" / "h.json", **settings)
    assert not (tmp_path / "out").exists()


def test_without_pyhessian_installed(trained, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyhessian", None)
    with pytest.raises(FlatFedError, match=r"PyHessian is not installed .*--without-pyhessian"):
        make(trained, tmp_path / "h.json", pyhessian=True)
    assert make(trained, tmp_path / "h.json").pyhessian is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "h.npz"], "'h.npz': expected a file that ends in .json"),
        (["--out", "h.json", "--images", "0"], "'0': expected a whole number above 0"),
        (["--out", "h.json", "--top", "0"], "'0': expected a whole number above 0"),
        (["--out", "h.json", "--vectors", "1"], "'1': expected a whole number above 1"),
        (["--out", "h.json", "--parts", "1"], "'1': expected a whole number above 1"),
        (["--out", "h.json", "--seed", "-1"], "'-1': expected a whole number from 0 to"),
        (["--out", "h.json", "--residual", "nan"], "'nan': expected a number from 0 to 1"),
        (["--out", "h.json", "--precision", "float16"], "unknown value 'float16'"),
        (["--out", "h.json", "--top", "2000"], "its model has 1443 parameters"),
    ],
)
def test_the_command_line_refuses(problem, words, message, capsys, monkeypatch):
    monkeypatch.chdir(problem)
    try:
        status = cli.main(["hessian", "run", "--dataset", "data", "--partition", "partition.npz", *words])
    except SystemExit as end:
        status = end.code
    assert status == 2 and message in capsys.readouterr().err
    assert not list(problem.glob("h.*")) and not list(problem.glob(".*"))


def test_the_command_line_makes_the_file(problem, monkeypatch, capsys):
    monkeypatch.chdir(problem)
    data = ["--dataset", "data", "--partition", "partition.npz", "--device", "cpu", "--out", "h.json"]
    settings = ["--images", "all", "--top", "1", "--vectors", "8", "--block", "2", "--seed", "3"]
    assert cli.main(["hessian", "run", *data, *settings]) == 0
    found = curvature.read("h.json")
    asked = {"images": None, "top": 1, "vectors": 8, "block": 2, "seed": 3, "pyhessian": True}
    assert found.about.settings.items() >= asked.items()
    assert found.about.parts == 0
    assert "trace: 8 products" in capsys.readouterr().err
    asked = ["--without-pyhessian", "--images", "9", "--parts", "3"]
    assert cli.main(["hessian", "run", *data, *settings, *asked]) == 0
    found = json.loads(Path("h.json").read_text())
    assert found["pyhessian"] is found["pyhessian_absent"] is None and (found["images"], found["parts"]) == (9, 3)


def test_damaged_files_are_named(tmp_path):
    path = tmp_path / "h.json"
    with pytest.raises(DataError, match=r"h.json: no such Hessian; flatfed hessian makes it"):
        curvature.read(path)
    for content in ("{", "[]", '{"top_eigenvalue": 1, "trace": 2}', '{"format": 3, "top_eigenvalue": 1, "trace": 2}'):
        path.write_text(content)
        with pytest.raises(DataError, match=r"h.json: not a Hessian"):
            curvature.read(path)


def test_a_file_with_intervals_of_an_earlier_version_is_read(tmp_path):
    path = Path(made.written(tmp_path / "h.json", made.hessian(1.0, 9.0)))
    write_sealed(path, {**json.loads(path.read_text()), "trace_interval": [8.0, 10.0]})
    assert curvature.read(path) == made.hessian(1.0, 9.0)
