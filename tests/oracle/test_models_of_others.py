"""Models as others write them (tests/oracle/others), trained by flatfed and by plain PyTorch: the same tensors."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from flatfed import models
from flatfed.data.streams import torch_seed
from flatfed.engine.executors import EXECUTORS
from flatfed.errors import ConfigError
from flatfed.runs import record as records
from harness import description, job, lines, write_problem
from plain import Plain
from samples import sampled

FOLDER = Path(__file__).with_name("others")
MODELS = sorted(path.stem for path in FOLDER.glob("*.py"))
SHAPE, CLASSES, ROUNDS = (1, 8, 8), 3, 2
ALGORITHMS = {"fedavg": {}, "fedsam": {"rho": 0.1}, "fedsmoo": {"rho": 0.1, "penalty": 0.1}}
SAMPLING = {"scheme": "fixed", "fraction": 0.67, "sampler": "keyed"}  # four of six: two clients come twice

#: (model, executor) -> the layer that the executor refuses. vmap has no rule for torch's recurrent layers.
GRU = r"layer 'gru' \(GRU\)"
REFUSED = {("recurrent", "stacked"): GRU, ("recurrent", "products"): GRU}


@pytest.fixture(scope="module", autouse=True)
def problem(tmp_path_factory):
    """Yield a folder with data and partition; the models of others are a user's meanwhile."""
    folder = tmp_path_factory.mktemp("others")
    write_problem(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "__path__", list(models.__path__))
        models.FILES.look_in([FOLDER], "a test")
        yield folder


def spec(model: str, algorithm: str) -> dict:
    """Return the description of a run."""
    settings = {"model": {"name": model, "options": {}}, "rounds": ROUNDS, "sampling": SAMPLING}
    return description(algorithm, ALGORITHMS[algorithm], **settings)


def built(model: str, seed: int) -> nn.Module:
    """Return the module with the weights that its own code draws for ``seed``, in float64."""
    torch.manual_seed(torch_seed(seed, "weights"))
    module = __import__(f"flatfed.models.{model}", fromlist=["build"]).build(SHAPE, CLASSES)
    module(torch.zeros(1, *SHAPE))  # lazy layers
    return module.double()


@functools.cache
def finished(folder: Path, model: str, algorithm: str) -> Plain:
    """Return the run in plain PyTorch after its last round."""
    settings = spec(model, algorithm)
    run = Plain(folder, settings, built(model, settings["seed"]))
    run.served(ROUNDS)
    return run


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("model", sampled(MODELS, ["tutorial_cnn"]))
def test_trains_as_in_plain_pytorch(problem, model, algorithm, executor):
    models.check_runs(model, SHAPE, CLASSES, {}, "a test")
    settings = {**spec(model, algorithm), "executor": {"cpu": executor, "cuda": executor}}
    out = f"{model}-{algorithm}-{executor}"
    if layer := REFUSED.get((model, executor)):
        with pytest.raises(ConfigError, match=rf"executor {executor} cannot run .*: {layer}: .*`executor: sequential`"):
            job(problem, algorithm, out, **settings)
        return
    folder, expected = job(problem, algorithm, out, **settings), finished(problem, model, algorithm)
    found, initial = load_file(folder / records.MODEL), built(model, settings["seed"]).state_dict()
    named = expected.server.named_parameters(remove_duplicate=False)
    trained = {name for name, parameter in named if parameter.requires_grad}
    assert found.keys() == initial.keys()
    for name, tensor in expected.server.state_dict().items():
        assert found[name].dtype == torch.float64
        assert (found[name] - tensor).abs().max() < 1e-10, name
        assert ((tensor - initial[name]).abs().max() > 1e-3) == (name in trained), "all move but what is fixed"
    (*_, last) = lines(folder)
    scores = expected.score(np.load(problem / "partition.npz")["test"])
    assert {key: float(last[key]) for key in scores} == pytest.approx(scores, abs=1e-10)
