"""The Hessian of a finished run: against the whole Hessian, its file, interruptions, memory, refusals."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

import made
from flatfed import cli
from flatfed.analysis import trained_model
from flatfed.analysis.hessian import eigen, estimates, pyhessian_estimates, vector_products
from flatfed.analysis.hessian import measure as hessians
from flatfed.analysis.hessian.measure import HessianSettings
from flatfed.analysis.hessian.vector_products import HessianProducts
from flatfed.analysis.trained_model import AnalysisInputs
from flatfed.engine.precision import SWITCHES
from flatfed.errors import FlatFedError, Shortage
from flatfed.runs import curvature
from flatfed.runs.curvature import Converged, Hessian
from harness import ERRORS, Reference, description, draw_of_signs, seeded

FEW = {
    **{"images": 12, "parts": 3, "micro_batch": 128, "block": 4, "precision": "float32", "seed": 0},
    **{"top": 1, "residual": 0.1, "products": 600, "trace_error": 0.05, "vectors": 8, "pyhessian": False},
}
ACCURATE = {"precision": "float64", "top": 2, "residual": 1e-5}


def inputs(problem: Path) -> AnalysisInputs:
    return AnalysisInputs(problem / "data", problem / "partition.npz", device="cpu")


def make(problem: Path, out: Path, run: str = "run", **settings) -> Hessian:
    hessians.hessian(problem / run, inputs(problem), out, HessianSettings(**{**FEW, **settings}))
    return curvature.read(out)


def exact(problem: Path, dealt: np.ndarray) -> torch.Tensor:
    """Return the eigenvalues, falling, of the whole Hessian of "run" on the images ``dealt``, by torch.func."""
    reference = Reference(problem, description("fedavg"))
    weights = {name: value.double() for name, value in load_file(problem / "run" / "model.safetensors").items()}
    order = [name for name, _ in reference.model.named_parameters()]
    sizes = [weights[name].numel() for name in order]
    x, y = reference.x[dealt], reference.y[dealt]

    def loss(row):
        parts = {n: p.view_as(weights[n]) for n, p in zip(order, row.split(sizes), strict=True)}
        return cross_entropy(functional_call(reference.model, parts, (x,)), y)

    whole = torch.func.hessian(loss)(torch.cat([weights[name].reshape(-1) for name in order]))
    return torch.linalg.eigvalsh(whole).flip(0)


def test_a_run_in_float64_against_its_whole_hessian_on_the_images_of_the_seed(finished, tmp_path):
    chosen = trained_model.load(finished / "run", inputs(finished)).draw_images("train", 9, 4)
    truth = exact(finished, chosen.numpy())
    settings = {**ACCURATE, "images": 9, "micro_batch": 4, "vectors": 64}
    found = make(finished, tmp_path / "h.json", **settings, seed=4, pyhessian=True)
    ours, about = found.unscaled, found.about
    np.testing.assert_allclose(ours.eigenvalues, truth[:2], rtol=1e-6)
    assert ours.top_eigenvalue == ours.eigenvalues[0] and ours.converged.eigenvalues
    assert abs(ours.trace - float(truth.sum())) <= 3 * ours.trace_standard_error
    assert found.pyhessian.top_eigenvalue == pytest.approx(float(truth[0]), rel=1e-3)
    assert found.agreement.trace.within
    assert about.run == "problem/test/fedavg/seed3" and len(about.digests.model) == 64
    assert (about.images, about.images_of, about.set, about.parameters) == (9, 49, "train", len(truth))
    assert about.settings["residual"] == 1e-5
    other = make(finished, tmp_path / "other.json", images=9, seed=5)
    assert other.unscaled.top_eigenvalue != pytest.approx(ours.top_eigenvalue, rel=1e-2)


def test_float32_and_micro_batches_give_the_same_but_for_rounding(finished, tmp_path):
    double = make(finished, tmp_path / "a.json", "single", images=None, precision="float64", residual=1e-4)
    single = make(finished, tmp_path / "b.json", "single", images=None, micro_batch=7, residual=1e-4)
    assert single.about.precision == "float32"
    np.testing.assert_allclose(single.unscaled.eigenvalues, double.unscaled.eigenvalues, rtol=1e-4)
    assert single.unscaled.trace == pytest.approx(double.unscaled.trace, rel=1e-3)
    assert {switch.fp32_precision for switch in SWITCHES} == {"tf32"}, "torch is again as the engine sets it"


def test_parts_are_the_images_split_at_random(finished):
    """Sorted positions are grouped by client: a part of them would be no sample of all."""
    loaded = trained_model.load(finished / "run", inputs(finished))
    index, splits = loaded.draw_images("train", 40, 4), []
    for seed in (4, 4, 5):
        settings = HessianSettings(**{**FEW, "micro_batch": 5, "seed": seed})
        unscaled, scaled = (
            [torch.cat(part.parts) for part in products.parts]
            for products in hessians._products(loaded, index, 3, settings)
        )
        assert sorted(torch.cat(unscaled).tolist()) == index.tolist()
        assert [len(part) for part in unscaled] == [14, 13, 13] and all((part.diff() < 0).any() for part in unscaled)
        splits.append([part.tolist() for part in unscaled])
        assert [part.tolist() for part in scaled] == splits[-1]
    assert splits[0] == splits[1] != splits[2]


@pytest.mark.parametrize(
    ("module", "name", "kept", "damaged"),
    [
        (estimates, "trace", 1, False),
        (pyhessian_estimates, "estimate", 4, False),
        (curvature, "write", 5, True),
    ],
)
def test_an_interrupted_call_goes_on_to_the_same_bytes(finished, tmp_path, monkeypatch, module, name, kept, damaged):
    """The stages eigenvalues, trace, both scaled, and pyhessian are kept; damaged ones are estimated again."""
    whole, out = tmp_path / "whole.json", tmp_path / "two" / "h.json"
    make(finished, whole, pyhessian=True)

    def stops(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, name, stops)
        make(finished, out, pyhessian=True)
    stages = list(out.parent.glob(".*.stage"))
    assert not out.exists() and len(stages) == kept
    if damaged:
        for path in stages:
            path.write_bytes(path.read_bytes()[:20])
    else:
        make(finished, out, seed=1)  # neither takes these estimates nor loses them
    find, sought = eigen.top, []
    with monkeypatch.context() as patch:
        patch.setattr(eigen, "top", lambda products, *a, **k: sought.append(products) or find(products, *a, **k))
        make(finished, out, pyhessian=True)
    assert len(sought) == (2 if damaged else kept == 1)
    assert out.read_bytes() == whole.read_bytes() and [path.name for path in out.parent.iterdir()] == ["h.json"]


def test_estimates_that_did_not_converge_or_disagree_have_warnings(finished, tmp_path, capsys, monkeypatch):
    found = make(finished, tmp_path / "h.json", products=4, residual=1e-9, vectors=2, trace_error=1e-9)
    assert found.unscaled.converged == found.scaled.converged == Converged(eigenvalues=False, trace=False)
    assert found.warnings[0].startswith("the eigenvalues have not converged")
    assert found.warnings[1].startswith("the trace has not converged") and "after 2 vectors" in found.warnings[1]
    assert [text.startswith(curvature.SCALED) for text in found.warnings] == [False, False, True, True]
    assert found.warnings_about("hessian_trace") == found.warnings[1:2]
    assert found.warnings_about("hessian_scaled_top_eigenvalue") == found.warnings[2:3]
    assert found.warnings[0] in capsys.readouterr().err
    call = pyhessian_estimates.estimate

    def other(*arguments, **settings):
        estimate = call(*arguments, **settings)
        return estimate.model_copy(update={"top_eigenvalue": 2 * estimate.top_eigenvalue, "trace_converged": True})

    monkeypatch.setattr(pyhessian_estimates, "estimate", other)
    (warning,) = make(finished, tmp_path / "other.json", pyhessian=True, vectors=64, trace_error=0.9).warnings
    assert "further apart than their errors allow" in warning


def test_an_absent_pyhessian_is_named_and_nothing_is_written(problem, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyhessian", None)
    with pytest.raises(FlatFedError, match=r"PyHessian is not installed .*--without-pyhessian"):
        make(problem, Path("out/h.json"), pyhessian=True)
    assert not Path("out/h.json").exists()


def test_the_command_line_makes_the_file(problem, capsys):
    words = "hessian run --dataset data --partition partition.npz --device cpu --out h.json --top 1 --vectors 8"
    assert cli.main([*words.split(), "--block", "2", "--seed", "3", "--images", "all"]) == 0
    about = curvature.read("h.json").about
    settings = {"images": None, "top": 1, "vectors": 8, "block": 2, "seed": 3, "pyhessian": True}
    assert about.settings.items() >= settings.items() and about.parts == 0
    assert "trace: 8 products" in capsys.readouterr().err
    assert cli.main([*words.split(), "--without-pyhessian", "--images", "9", "--parts", "3"]) == 0
    found = json.loads(Path("h.json").read_text())
    assert found["pyhessian"] is found["pyhessian_absent"] is found["diverged_at"] is None
    assert (found["images"], found["parts"]) == (9, 3)
    assert found.keys() == json.loads(Path(made.written("d.json", made.hessian_of_diverged())).read_text()).keys()


def short(most: int):
    """Return a loss whose memory ends with more than ``most`` images."""

    def loss(outputs, targets):
        if len(targets) > most:
            raise ERRORS["on a GPU"]
        return cross_entropy(outputs, targets)

    return loss


def test_too_little_memory_is_refused_and_fewer_images_at_a_time_help(finished, tmp_path, monkeypatch):
    """The remedy that the message names gives the numbers of another block up to rounding."""
    out = tmp_path / "out" / "h.json"
    with monkeypatch.context() as patch:
        patch.setattr(hessians, "cross_entropy", short(3))
        with pytest.raises(Shortage, match=r"Hessian of .*run: not enough memory on cpu.*a smaller --micro-batch"):
            make(finished, out)
        assert not out.exists()
        few = make(finished, out, micro_batch=3)
    plain = make(finished, tmp_path / "plain.json")
    assert json.loads((tmp_path / "plain.json").read_text())["at_once"] == {"images": 128, "vectors": 4}
    assert plain.unscaled.top_eigenvalue == pytest.approx(few.unscaled.top_eigenvalue, rel=1e-3)


def test_vectors_that_do_not_fit_are_refused_and_pyhessian_is_left_out(finished, tmp_path, monkeypatch, capsys):
    def fails(*_, **__):
        raise ERRORS["on a GPU"]

    monkeypatch.setattr(pyhessian_estimates, "_raw", fails)
    found = make(finished, tmp_path / "h.json", pyhessian=True)
    assert found.pyhessian is found.agreement is None and "not enough memory" in found.pyhessian_absent
    warning = f"PyHessian has no top eigenvalue and no trace: {found.pyhessian_absent}"
    assert warning in found.warnings and warning in capsys.readouterr().err
    for metric, expected in (("trace", True), ("top_eigenvalue", True), ("scaled_trace", False)):
        assert (warning in found.warnings_about(f"hessian_{metric}")) == expected
    monkeypatch.setattr(eigen, "_extended", fails)
    with pytest.raises(Shortage, match=r"Hessian of .*run: not enough memory on cpu.*2.50 GiB more .*or --top"):
        make(finished, tmp_path / "other.json")
    assert vector_products.remedies(torch.device("cuda")).count("--device cpu") == 1


class Linear(nn.Module):
    """Is linear in a parameter, and does not use another."""

    def __init__(self):
        super().__init__()
        self.bent, self.straight, self.spare = (nn.Parameter(torch.ones(3)) for _ in range(3))

    def forward(self, x):
        return x * (self.bent**3).sum() + x * self.straight.sum()


def test_parameters_that_the_loss_is_linear_in_or_does_not_use():
    batches = [(torch.ones(4).double(), torch.ones(4).double())]
    found = HessianProducts(seeded(Linear()), lambda output, target: output.mean(), batches, 2)
    with pytest.raises(pyhessian_estimates.Unfit, match="'straight' is not"):
        pyhessian_estimates.estimate(found, 0, 7, tolerance=0.01, error=0.05, most=8)
    known = eigen.top(found, draw_of_signs(found, "eigenvalues"), 2, tolerance=1e-6, most=60)
    whole = torch.cat([6 * found.parameters[0].detach(), torch.zeros(6).double()])
    torch.testing.assert_close(known.values, whole.sort(descending=True).values[:2])
    trace = estimates.trace(found, draw_of_signs(found, "trace"), known, error=1e-3, most=64)
    assert trace.value == pytest.approx(float(whole.sum()), abs=1e-9), "a diagonal has no error"
