"""Hessians where something is lacking: memory, a parameter in the loss, a place for PyHessian."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from test_hessian_run import exact, make
from torch import nn
from torch.nn.functional import cross_entropy

from flatfed import models
from flatfed.analysis.hessian import eigen, estimates, pyhessian_estimates, vector_products
from flatfed.analysis.hessian import measure as hessians
from flatfed.analysis.hessian.vector_products import HessianProducts, Limits
from flatfed.engine.job.train import train
from flatfed.errors import Shortage
from flatfed.runs.curvature import AtOnce
from flatfed.runs.run_config import RunConfig
from harness import ERRORS, description, draw_of_signs, seeded, split_images, write_problem


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("lacking")
    write_problem(folder)
    train(
        RunConfig(**description("fedavg", rounds=1)),
        folder / "data",
        folder / "partition.npz",
        folder / "run",
        device="cpu",
    )
    return folder


class Short:
    """A loss for which memory lasts for ``most`` images; it keeps how many there were of each that it had."""

    def __init__(self, most: int, error: Exception = ERRORS["on a GPU"]):
        self.most, self.error, self.had = most, error, []

    def __call__(self, outputs, targets):
        if len(targets) > self.most:
            raise self.error
        self.had.append(len(targets))
        return cross_entropy(outputs, targets)


def products(loss, block: int = 4, limits: Limits | None = None) -> HessianProducts:
    batches = split_images((6,), 3)  # eleven images in batches of 4, 4 and 3
    return HessianProducts(
        seeded(nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))), loss, batches, block, limits=limits
    )


@pytest.mark.parametrize("kind", ERRORS)
def test_fewer_images_share_a_graph_and_products_are_the_same(kind, capsys):
    plain, short = products(cross_entropy), Short(1, ERRORS[kind])
    lacking = products(short)
    vectors = torch.randn(5, plain.size, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(lacking(vectors), plain(vectors), rtol=1e-12, atol=1e-14)
    assert lacking.limits == Limits(images=1) and set(short.had) == {1} and lacking.done == 5
    said = capsys.readouterr().err.splitlines()
    assert [line.rpartition("; ")[2] for line in said] == [
        f"{now} images share a graph now, not {before}: the same numbers up to rounding"
        for now, before in ((2, 4), (1, 2))
    ]
    assert all(line.startswith("Hessian: not enough memory on cpu (") for line in said)


def test_then_fewer_vectors_and_at_last_a_refusal(monkeypatch, capsys):
    plain, lacking = products(cross_entropy), products(cross_entropy)
    graphs, most = HessianProducts._graphs, 1

    def short(self, batches, vectors):
        self._images = 1
        if self is lacking and len(vectors) > most:
            raise ERRORS["on the host"]
        return graphs(self, batches, vectors)

    monkeypatch.setattr(HessianProducts, "_graphs", short)
    vectors = torch.randn(5, plain.size, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(lacking(vectors), plain(vectors), rtol=1e-12, atol=1e-14)
    assert lacking.limits == Limits(vectors=1) and "1 vectors share a graph now, not 2" in capsys.readouterr().err
    most = 0
    with pytest.raises(Shortage, match=r"for one image and one vector; 81920 bytes more .*--micro-batch, --block"):
        lacking(vectors)


def test_all_that_share_limits_learn_of_it():
    short = Short(2)
    limits = Limits()
    one, other = products(short, limits=limits), products(short, limits=limits)
    vectors = torch.ones(1, one.size).double()
    one(vectors)
    short.error = AssertionError("too many images were tried again")
    other(vectors)
    assert limits.images == 2


def test_other_errors_are_not_hidden():
    with pytest.raises(RuntimeError, match="shapes do not match"):
        products(Short(0, RuntimeError("shapes do not match")))(torch.ones(1, 43).double())


def test_a_file_made_with_little_memory_says_so_and_holds_the_same(trained, tmp_path, monkeypatch, capsys):
    settings = {"pyhessian": True, "vectors": 40, "trace_error": 0.9}
    plain = make(trained, tmp_path / "plain.json", **settings)
    assert plain.at_once == AtOnce(images=128, vectors=4)
    with monkeypatch.context() as patch:
        patch.setattr(hessians, "cross_entropy", Short(3))
        found = make(trained, tmp_path / "short.json", **settings)
    assert found.at_once == AtOnce(images=3, vectors=4) and "3 images share a graph now" in capsys.readouterr().err
    for name in ("unscaled", "scaled", "pyhessian"):
        one, other = getattr(plain, name), getattr(found, name)
        assert one.top_eigenvalue == pytest.approx(other.top_eigenvalue, rel=1e-3)
        assert one.trace == pytest.approx(other.trace, rel=1e-3)


def test_memory_that_does_not_last_is_refused_and_nothing_is_written(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(hessians, "cross_entropy", Short(0))
    with pytest.raises(Shortage, match=r"Hessian: not enough memory on cpu .* for one image and one vector"):
        make(trained, tmp_path / "out" / "h.json")
    assert not (tmp_path / "out" / "h.json").exists()


def test_vectors_that_do_not_fit_are_refused_with_what_helps(trained, tmp_path, monkeypatch):
    def too_many(*_, **__):
        raise ERRORS["on a GPU"]

    monkeypatch.setattr(eigen, "_extended", too_many)
    with pytest.raises(Shortage, match=r"Hessian of .*run: not enough memory on cpu .*2.50 GiB more .*or --top"):
        make(trained, tmp_path / "h.json")


def test_pyhessian_alone_may_lack_memory(trained, tmp_path, monkeypatch):
    def too_much(*_):
        raise ERRORS["on a GPU"]

    monkeypatch.setattr(pyhessian_estimates, "_raw", too_much)
    found = make(trained, tmp_path / "h.json", pyhessian=True)
    assert found.pyhessian is found.agreement is None and "not enough memory" in found.pyhessian_absent


class Idle(nn.Module):
    """Has a layer that the loss does not use."""

    def __init__(self):
        super().__init__()
        self.dropout = []
        self.spare = nn.Linear(3, 2, bias=False)
        self.conv = nn.Conv2d(1, 2, 3, 2)
        self.fc = nn.Linear(18, 3)

    def forward(self, x, masks=None):
        return self.fc(torch.tanh(self.conv(x)).flatten(1))


def test_a_parameter_that_the_loss_does_not_use(tmp_path, monkeypatch, capsys):
    """Our numbers are those of the Hessian with zeros in its place, PyHessian's column is null with the reason."""
    monkeypatch.setattr(models, "build", lambda *_: Idle())
    write_problem(tmp_path)
    spec = description("fedavg", rounds=1)
    train(RunConfig(**spec), tmp_path / "data", tmp_path / "partition.npz", tmp_path / "run", device="cpu")
    settings = {"precision": "float64", "images": None, "residual": 1e-6, "vectors": 64}
    found = make(tmp_path, tmp_path / "h.json", pyhessian=True, **settings)
    assert found.about.parameters == 83 and found.pyhessian is found.agreement is None
    assert found.pyhessian_absent == (
        "it takes every parameter to be part of the loss and of its gradient, and 'spare.weight' is not"
    )
    said = f"PyHessian has no top eigenvalue and no trace: {found.pyhessian_absent}"
    assert said in found.warnings and said in capsys.readouterr().err
    assert said in found.warnings_about("hessian_trace") and said in found.warnings_about("hessian_top_eigenvalue")
    assert said not in found.warnings_about("hessian_scaled_trace")
    truth = exact(tmp_path, "run", np.load(tmp_path / "partition.npz")["indices"])
    np.testing.assert_allclose(found.unscaled.eigenvalues, truth[:1], rtol=1e-6)
    assert abs(found.unscaled.trace - float(truth.sum())) <= 4 * found.unscaled.trace_standard_error


def test_a_parameter_that_the_loss_is_only_linear_in():
    class Linear(nn.Module):
        def __init__(self):
            super().__init__()
            self.bent, self.straight = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))

        def forward(self, x):
            return x * (self.bent**3).sum() + x * self.straight.sum()

    batches = [(torch.ones(4).double(), torch.ones(4).double())]
    found = HessianProducts(seeded(Linear()), lambda output, target: output.mean(), batches, 2)
    with pytest.raises(pyhessian_estimates.Unfit, match="'straight' is not"):
        pyhessian_estimates.estimate(found, 0, 7, tolerance=0.01, error=0.05, most=8)
    known = eigen.top(found, draw_of_signs(found, "eigenvalues"), 2, tolerance=1e-6, most=60)
    whole = torch.cat([6 * found.parameters[0].detach(), torch.zeros(3).double()])
    torch.testing.assert_close(known.values, whole.sort(descending=True).values[:2])
    trace = estimates.trace(found, draw_of_signs(found, "trace"), known, error=1e-3, most=64)
    assert trace.value == pytest.approx(float(whole.sum()), abs=1e-9), "a diagonal has no error"
    assert vector_products.remedies(torch.device("cuda")).count("--device cpu") == 1
