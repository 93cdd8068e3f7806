"""Recorded steps, as CUDA graphs are: the same numbers as the steps themselves, for every algorithm."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from flatfed import algorithms
from flatfed.engine import batches, second_stream
from flatfed.engine.simulation import Simulation
from flatfed.engine.speed.recording import Recorded, RecordedScore
from harness import DROPOUT, advanced, description, full_rows, needs, simulation, weights
from samples import FEW, sampled
from tape import Tape

TOLERANCE = 1e-12
HALF = {"scheme": "bernoulli", "fraction": 0.5, "sampler": "keyed"}
AS_PAPER = {"model": DROPOUT, "augmentation": "crop_flip_half"}


def spec_of(name: str, **changes) -> dict:
    """Return a problem with clip, decay, ragged batches, unequal clients, and numbers of clients that vary."""
    rho = {"rho": 0.3} if "rho" in algorithms.load(name).parameters() else {}
    return description(name, rho, **{**needs(name), **changes})


def taped(folder, spec: dict, rounds: int | None = None, largest: int = 0, **options) -> tuple[Simulation, Tape]:
    """Return a run after some rounds whose recorded steps are replayed, and the tape."""
    run, tape = simulation(folder, spec, "products", **options), Tape()
    run.local_update = Recorded(run.local_update.plain, tape, largest)
    advanced(run, spec["rounds"] if rounds is None else rounds)
    return run, tape


def model(run: Simulation) -> torch.Tensor:
    return full_rows(run, run.server["w"])[0]


#: Algorithm, changes of the run.
CASES = [*((name, {}) for name in algorithms.names()), ("fedsam", AS_PAPER)]


@pytest.mark.parametrize("case", sampled(CASES, [case for case in CASES if case[0] in FEW or case[1]]))
def test_replayed_steps_are_the_steps(tmp_path, case):
    """Those of dropout and augmentation, too."""
    name, changes = case
    # Their directions are a tenth of a gradient, and momentum.
    clip = {"clip_norm": 0.15} if name in ("fedcm", "fedwmsam", "mimelite", "mofedsam") else {}
    spec, norms = spec_of(name, **clip, **changes), []
    plain = simulation(tmp_path, spec, "sequential")
    descend = plain.local_update.descend
    plain.local_update.descend = lambda w, d, ctx: (norms.append(float(d.norm())), descend(w, d, ctx))
    expected = advanced(plain, spec["rounds"])
    assert min(norms) < spec["clip_norm"] < max(norms), "the clip must act on some steps"
    run, tape = taped(tmp_path, spec, 0)
    for line, other in zip(advanced(run, spec["rounds"]), expected, strict=True):
        assert line == pytest.approx(other, rel=1e-11)
    assert (model(run) - plain.server["w"][0]).abs().max() < TOLERANCE
    for key, values in plain.state.store.items():
        assert (values - full_rows(run, run.state.store[key])).abs().max() < TOLERANCE, key
    assert tape.recorded >= 1


def test_the_largest_number_of_rows_is_reserved_first(tmp_path):
    """So recordings of few rows stay when more come; with `rows`, blocks have no more."""
    spec = spec_of("fedavg", sampling=HALF, rounds=6)
    run = simulation(tmp_path, spec, "products")
    counts = [len(run.sample(ahead)) for ahead in range(6)]
    assert max(counts) > counts[0] and run.local_update.largest == max(counts)
    run, tape = taped(tmp_path, spec, 1, max(counts))
    assert run.local_update.capacity == max(counts)
    first = dict(run.local_update.steps)
    advanced(run, 5)
    assert tape.recorded == len(run.local_update.steps) and first.items() <= run.local_update.steps.items()
    few = simulation(tmp_path, {**spec, "rows": 2}, "products")
    few.advance()
    assert few.local_update.largest == few.local_update.capacity == 2


def test_recorded_evaluations(tmp_path):
    run = simulation(tmp_path, spec_of("fedavg", evaluation={"every": 1, "sets": ["test", "train"], "batch_size": 7}))
    tape, evaluate, plain = Tape(), run.evaluate, run.evaluate.score
    rows = [run.server["w"][0], 2 * run.server["w"][0]]
    expected = [evaluate(row) for row in rows]
    evaluate.score = RecordedScore(plain, tape, [evaluate.images, evaluate.train])
    assert [evaluate(row) for row in rows] == expected and tape.recorded == 2
    other = evaluate.train[: len(evaluate.images)]
    assert torch.equal(evaluate.score(rows[0], other)[1], plain(rows[0], other)[1]) and tape.recorded == 2


def test_rounds_are_planned_ahead(tmp_path, monkeypatch):
    """Also if all rounds have the same clients: their batches differ."""
    spec, plans, make = spec_of("fedavg", sampling={"scheme": "all"}, **AS_PAPER), [], batches.plan
    noted = lambda *arguments, **keyed: (plans.append(keyed["round_"]), make(*arguments, **keyed))[1]  # noqa: E731
    monkeypatch.setattr(batches, "plan", noted)
    ahead = weights(tmp_path, spec)
    assert plans == [0, 1, 2, 3]
    monkeypatch.setattr(Simulation, "plan_ahead", lambda run: None)
    assert torch.equal(weights(tmp_path, spec), ahead)


def test_other_server_vectors_are_recorded_anew(tmp_path):
    """Recordings read the server's vectors at their address: moved elsewhere, they would read the old ones."""
    spec = spec_of("fedsmoo")
    expected = weights(tmp_path, spec, "sequential")
    run, _ = taped(tmp_path, spec, 1)
    old, run.server = run.server, {name: value.clone() for name, value in run.server.items()}
    for value in old.values():
        value.fill_(float("nan"))
    advanced(run, 3)
    assert (model(run) - expected).abs().max() < TOLERANCE


def test_both_gradients_of_a_layer_used_twice_are_added_after_the_second_stream(monkeypatch):
    """Here without a GPU: the calls are noted, in order."""
    calls = []

    def stream(name: str) -> SimpleNamespace:
        return SimpleNamespace(name=name, wait_stream=lambda other: calls.append(f"{name} waits for {other.name}"))

    main, second = stream("main"), stream("second")
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: main)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: calls.append(f"in {stream.name}") or nullcontext())
    monkeypatch.setattr(second_stream, "SECOND", lambda _: second)
    tied, other, gradient = torch.ones(1), torch.ones(1), torch.ones(1)
    for name, parameter in (("tied", tied), ("other", other), ("tied", tied)):
        second_stream.on_second_stream(lambda name=name: calls.append(name), parameter, gradient)
    second_stream.join()
    apart = ["second waits for main", "in second"]
    assert calls == [*apart, "tied", *apart, "other", "main waits for second", "tied"]
    assert not second_stream.HELD and not second_stream.SEEN


def test_the_second_stream_ends_after_errors_too(tmp_path, monkeypatch):
    run, joined = simulation(tmp_path, spec_of("fedavg"), "products"), []
    monkeypatch.setattr(torch.autograd, "grad", lambda *_, **__: 1 / 0)
    monkeypatch.setattr(second_stream, "join", lambda: joined.append(1))
    with pytest.raises(ZeroDivisionError):
        run.advance()
    assert joined == [1]
