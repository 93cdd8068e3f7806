"""Settings that papers vary: schedules, momentum, label smoothing and local steps, against torch's own."""

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from flatfed.errors import ConfigError
from flatfed.plan import protocols
from flatfed.runs.run_config import RunConfig
from harness import Reference, description, needs, simulation, weights

TOLERANCE = 1e-12
COSINE = {"kind": "cosine", "final_learning_rate": 0.02}
STEP = {"kind": "step", "milestones": [1, 3], "factor": 0.3}


def without(spec: dict, *keys: str) -> dict:
    return {key: value for key, value in spec.items() if key not in keys}


def rates(schedule: dict, first: float, rounds: int) -> list[float]:
    """Return the learning rates of torch's scheduler, round by round."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=first)
    if schedule["kind"] == "cosine":
        own = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, rounds, schedule["final_learning_rate"])
    else:
        own = torch.optim.lr_scheduler.MultiStepLR(optimizer, schedule["milestones"], schedule["factor"])
    found = []
    for _ in range(rounds):
        found += own.get_last_lr()
        optimizer.step(), own.step()
    return found


def by_torch(folder, spec: dict) -> torch.Tensor:
    """FedAvg with torch's SGD, scheduler and cross-entropy; return the server's model."""
    reference, run = Reference(folder, spec), simulation(folder, spec)
    w, first, schedule = reference.w, spec["learning_rate"], spec.get("learning_rate_schedule")
    of_round = rates(schedule, first, spec["rounds"]) if schedule else None
    for round_ in range(spec["rounds"]):
        lr = of_round[round_] if of_round else first * spec["learning_rate_decay"] ** round_
        local = []
        for client in run.sample().tolist():
            vector_to_parameters(w.clone(), reference.model.parameters())
            parameters = [p.requires_grad_() for p in reference.model.parameters()]
            options = {"momentum": spec.get("momentum", 0.0), "weight_decay": spec["weight_decay"]}
            optimizer = torch.optim.SGD(parameters, lr=lr, **options)
            for index in reference.batches(client, round_):
                optimizer.zero_grad()
                smoothing = spec.get("label_smoothing", 0.0)
                logits = reference.model(reference.x[index])
                cross_entropy(logits, reference.y[index], label_smoothing=smoothing).backward()
                torch.nn.utils.clip_grad_norm_(parameters, spec["clip_norm"])
                optimizer.step()
            local.append(parameters_to_vector(parameters).detach().clone())
        w = sum(local) / len(local)
        run.round += 1
    return w


@pytest.mark.parametrize("executor", ["sequential", "stacked", "products"])
@pytest.mark.parametrize(
    ("changes", "gone"),
    [
        ({"learning_rate_schedule": COSINE}, "learning_rate_decay"),
        ({"learning_rate_schedule": STEP}, "learning_rate_decay"),
        ({"momentum": 0.9}, ""),
        ({"momentum": 0.6, "weight_decay": 0.0}, ""),
        ({"label_smoothing": 0.1}, ""),
        ({"local_steps": 5}, "local_epochs"),
    ],
    ids=lambda value: next(iter(value), "") if isinstance(value, dict) else "",
)
def test_fedavg_is_torchs(tmp_path, changes, gone, executor):
    spec = without(description("fedavg", **changes), gone)
    assert (weights(tmp_path, spec, executor) - by_torch(tmp_path, spec)).abs().max() < TOLERANCE


@pytest.mark.parametrize("name", ["fedcm", "fedsmoo", "scaffold", "fedgmt", "dfedsam"])
def test_executors_agree_with_all_settings(tmp_path, name):
    settings = {"momentum": 0.5, "label_smoothing": 0.1, "learning_rate_schedule": COSINE, **needs(name)}
    spec = without(description(name, **settings), "learning_rate_decay")
    first, *others = (weights(tmp_path, spec, executor) for executor in ("sequential", "stacked", "products"))
    assert all((first - other).abs().max() < TOLERANCE for other in others)


def test_fedcm_divides_by_the_rate_of_the_round(tmp_path):
    """One full-batch step with alpha 1, no decay and no clip: the direction is the mean gradient, whatever the rate."""
    plain = {"local_epochs": 1, "batch_size": 100, "weight_decay": 0.0, "clip_norm": None}
    spec = without(description("fedcm", {"alpha": 1.0}, learning_rate_schedule=STEP, **plain), "learning_rate_decay")
    run = simulation(tmp_path, {**spec, "sampling": {"scheme": "all"}})
    reference = Reference(tmp_path, spec)
    for _ in range(3):
        w = run.server["w"][0].clone()
        run.advance()
        mean = sum(reference.gradient(w, members) for members in reference.members) / reference.m
        assert (run.server["direction"][0] - mean).abs().max() < TOLERANCE


def test_momentum_of_a_run_and_of_an_algorithm_exclude_each_other(tmp_path):
    spec = description("dfedavgm", momentum=0.5, **needs("dfedavgm"))
    with pytest.raises(ConfigError, match="momentum: the run sets it, and the algorithm has a parameter of its own"):
        simulation(tmp_path, spec)


def test_a_later_source_of_a_setting_takes_its_place():
    decay = {"learning_rate_decay": 0.9}
    assert protocols.overlay({"learning_rate_schedule": COSINE}, decay) == decay
    assert protocols.overlay({"local_epochs": 2}, {"local_steps": 7}) == {"local_epochs": 2, "local_steps": 7}


def test_absent_settings_stay_absent():
    config = RunConfig(**description("fedavg"))
    assert not {"momentum", "label_smoothing", "learning_rate_schedule"} & config.as_json().keys()
