"""The Hessian of a finished run: against the whole Hessian, its file, warnings, memory, refusals."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

import made
from flatfed import cli
from flatfed.analysis import trained_model
from flatfed.analysis.hessian import estimates, pyhessian_estimates
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
    **{"images": 12, "micro_batch": 128, "block": 4, "seed": 0},
    **{"top": 1, "residual": 0.1, "products": 8, "trace_error": 0.05, "vectors": 8, "pyhessian": False},
}
ACCURATE = {"products": 600, "residual": 1e-10}


def inputs(problem: Path) -> AnalysisInputs:
    return AnalysisInputs(problem / "data", problem / "partition.npz", device="cpu")


def make(problem: Path, out: Path, run: str = "run", **settings) -> Hessian:
    hessians.hessian(problem / run, inputs(problem), out, HessianSettings(**{**FEW, **settings}))
    return curvature.read(out)


def test_a_run_against_products_by_torch_func_on_the_images_of_the_seed(finished, tmp_path):
    chosen = trained_model.load(finished / "run", inputs(finished)).draw_images("train", 9, 4)
    settings = {**ACCURATE, "top": 2, "images": 9, "micro_batch": 4, "vectors": 64, "seed": 4}
    found = make(finished, tmp_path / "h.json", **settings, pyhessian=True)
    ours, about = found.unscaled, found.about
    reference = Reference(finished, description("fedavg"))
    weights = {name: value.double() for name, value in load_file(finished / "run" / "model.safetensors").items()}
    order = [name for name, _ in reference.model.named_parameters()]
    sizes = [weights[name].numel() for name in order]
    x, y = reference.x[chosen], reference.y[chosen]

    def loss(row):
        parts = {n: p.view_as(weights[n]) for n, p in zip(order, row.split(sizes), strict=True)}
        return cross_entropy(functional_call(reference.model, parts, (x,)), y)

    row = torch.cat([weights[name].reshape(-1) for name in order])
    _, of_gradient = torch.func.vjp(torch.func.grad(loss), row)
    size = len(row)

    def product(vector: np.ndarray) -> np.ndarray:
        return of_gradient(torch.from_numpy(vector))[0].numpy()

    truth = eigsh(LinearOperator((size, size), product, dtype=np.float64), 2, which="LA", return_eigenvectors=False)
    np.testing.assert_allclose(ours.eigenvalues, sorted(truth, reverse=True), rtol=1e-9)
    assert ours.top_eigenvalue == ours.eigenvalues[0] and ours.converged.eigenvalues
    signs = np.random.default_rng(0).integers(0, 2, (64, size)) * 2.0 - 1
    others = [z @ product(z) for z in signs]
    assert abs(ours.trace - np.mean(others)) <= 3 * math.hypot(ours.trace_standard_error, np.std(others) / 8)
    assert found.pyhessian.top_eigenvalue == pytest.approx(ours.top_eigenvalue, rel=1e-3)
    assert abs(found.pyhessian.trace - ours.trace) <= found.pyhessian_error("hessian_trace")
    assert about.run == "problem/test/fedavg/seed3" and len(about.digests.model) == 64
    assert (about.images, about.images_of, about.set, about.parameters) == (9, 49, "train", size)
    assert about.settings["residual"] == 1e-10
    other = make(finished, tmp_path / "other.json", images=9, seed=5)
    assert other.unscaled.top_eigenvalue != pytest.approx(ours.top_eigenvalue, rel=1e-2)


def test_products_have_the_precision_of_the_run(finished, tmp_path):
    """Micro-batches give the same up to rounding, and a run in float32 has residuals of its rounding."""
    double = make(finished, tmp_path / "a.json", **ACCURATE)
    batched = make(finished, tmp_path / "b.json", **ACCURATE, micro_batch=7)
    single = make(finished, tmp_path / "c.json", "single", **ACCURATE)
    assert (double.about.precision, single.about.precision) == ("float64", "float32")
    np.testing.assert_allclose(batched.unscaled.eigenvalues, double.unscaled.eigenvalues, rtol=1e-12)
    assert batched.unscaled.trace == pytest.approx(double.unscaled.trace, rel=1e-12)
    assert double.unscaled.converged.eigenvalues and single.unscaled.converged.eigenvalues
    assert double.unscaled.residuals[0] < 1e-9 < single.unscaled.residuals[0]
    assert {switch.fp32_precision for switch in SWITCHES} == {"tf32"}, "torch is again as the engine sets it"


def test_the_same_call_writes_the_same_bytes_also_after_a_stop(finished, tmp_path, monkeypatch):
    """A stopped call leaves nothing and begins again; random vectors are keyed by the seed."""
    whole, again, out = (tmp_path / name / "h.json" for name in ("a", "b", "c"))
    make(finished, whole, pyhessian=True)

    def stops(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(pyhessian_estimates, "estimate", stops)
        make(finished, out, pyhessian=True)
    assert not out.parent.exists()
    assert make(finished, again, pyhessian=True) and again.read_bytes() == whole.read_bytes()
    starts = [draw_of_signs(HessianProducts(Linear(), None, [], 1), "eigenvalues", seed)(0) for seed in (0, 1)]
    assert not torch.equal(*starts)


def test_estimates_that_did_not_converge_have_warnings(finished, tmp_path, capsys):
    found = make(finished, tmp_path / "h.json", products=4, residual=1e-9, vectors=2, trace_error=1e-9)
    assert found.unscaled.converged == found.scaled.converged == Converged(eigenvalues=False, trace=False)
    assert found.warnings[0].startswith("the eigenvalues have not converged")
    assert found.warnings[1].startswith("the trace has not converged") and "after 2 vectors" in found.warnings[1]
    assert [text.startswith(curvature.SCALED) for text in found.warnings] == [False, False, True, True]
    assert found.warnings_about("hessian_trace") == found.warnings[1:2]
    assert found.warnings_about("hessian_scaled_top_eigenvalue") == found.warnings[2:3]
    assert f"{tmp_path}/h.json: warning: {found.warnings[0]}\n" in capsys.readouterr().err


def test_an_absent_pyhessian_is_named_and_nothing_is_written(problem, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyhessian", None)
    with pytest.raises(FlatFedError, match=r"PyHessian is not installed .*--without-pyhessian"):
        make(problem, Path("out/h.json"), pyhessian=True)
    assert not Path("out/h.json").exists()


def test_the_command_line_makes_the_file(problem, capsys):
    words = "hessian run --dataset data --partition partition.npz --device cpu --out h.json --vectors 8 --products 8"
    few = ["--top", "1", "--block", "2", "--seed", "3", "--images", "all", "--without-pyhessian"]
    assert cli.main([*words.split(), *few]) == 0
    about = curvature.read("h.json").about
    settings = {"images": None, "top": 1, "vectors": 8, "block": 2, "seed": 3, "pyhessian": False}
    assert about.settings.items() >= settings.items()
    assert "trace: 8 products" in capsys.readouterr().err
    assert cli.main([*words.split(), "--images", "9"]) == 0
    found = json.loads(Path("h.json").read_text())
    assert found["pyhessian"]["version"] and found["pyhessian_absent"] is found["diverged_at"] is None
    assert (found["images"], found["images_of"]) == (9, 49)
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
    assert plain.unscaled.top_eigenvalue == pytest.approx(few.unscaled.top_eigenvalue, rel=1e-3)


def test_vectors_that_do_not_fit_are_refused_and_pyhessian_is_left_out(finished, tmp_path, monkeypatch, capsys):
    def fails(*_, **__):
        raise ERRORS["on a GPU"]

    monkeypatch.setattr(pyhessian_estimates, "_raw", fails)
    found = make(finished, tmp_path / "h.json", pyhessian=True)
    assert found.pyhessian is None and "CUDA out of memory" in found.pyhessian_absent
    warning = f"PyHessian has no top eigenvalue and no trace: {found.pyhessian_absent}"
    assert warning in found.warnings and warning in capsys.readouterr().err
    for metric, expected in (("trace", True), ("top_eigenvalue", True), ("scaled_trace", False)):
        assert (warning in found.warnings_about(f"hessian_{metric}")) == expected
    monkeypatch.setattr(estimates, "eigsh", fails)
    with pytest.raises(Shortage, match=r"Hessian of .*run: not enough memory on cpu.*2.50 GiB more .*or --top"):
        make(finished, tmp_path / "other.json")


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
    with pytest.raises(pyhessian_estimates.Unfit, match="it failed: "):
        pyhessian_estimates.estimate(found, 0, 7, tolerance=0.01, error=0.05, most=8)
    top = estimates.top(found, draw_of_signs(found, "eigenvalues")(0), 2, tolerance=1e-6, most=60)
    whole = torch.cat([6 * found.parameters[0].detach(), torch.zeros(6).double()])
    torch.testing.assert_close(top.values, whole.sort(descending=True).values[:2])
    trace = estimates.trace(found, draw_of_signs(found, "trace"), error=1e-3, most=64)
    assert trace.value == pytest.approx(float(whole.sum()), abs=1e-9), "a diagonal has no error"
