"""The engine names file and hook of a wrong value, and writes what hooks return, in whatever way they made it."""

import re
from inspect import signature
from textwrap import indent

import pytest
import torch

from flatfed.algorithms._names import HOOKS
from flatfed.engine.checks import first_round, repeats
from flatfed.engine.simulation import Simulation
from flatfed.errors import FlatFedError
from harness import advanced, description, simulation, weights
from repository import ROOT
from samples import sampled

ROWS = r"a tensor \(\d+, \d+\) of torch.float64"
ARGUMENTS = {
    **{"start": "w, ctx", "perturbation": "w, gradient, ctx", "update_dual": "e, ctx", "correct": "g, w, ctx"},
    **{"update": "w, d, ctx", "finish": "w, ctx", "aggregate": "server, uploads, ctx"},
    **{"loss": "logits, labels, second", "second_model": "ctx", "transform": "images, front"},
    **{"begin": "models, ctx", "mix": "models, mixing, ctx"},
}
PEERS, RING = "decentralised = True\n", {"topology": {"graph": "ring"}, "sampling": {"scheme": "all"}}
DUAL = "def perturbation(self, w, gradient, ctx):\n    return gradient(w)\n"

#: Hook, its body, the message after its name, other attributes of the class.
MISTAKES = [
    ("update", "w = w - ctx.lr * d", f"returned None; expected: {ROWS}", ""),
    ("start", "return w", f"returned {ROWS}; expected: a dict of vectors of scratch", ""),
    ("start", 'return {"previous": w}', "returned a vector 'previous', which scratch does not", "remembers = True\n"),
    ("correct", "g.mul_(2)", f"returned None; expected: {ROWS}", ""),
    ("correct", "return g.mean(dim=0, keepdim=True)", rf"returned a tensor \(1, \d+\) .*; expected: {ROWS}", ""),
    ("perturbation", "return 0.1", f"returned 0.1; expected: {ROWS}", ""),
    ("perturbation", "return gradient(w)", "a local step takes 2 gradients, but the class declares 1; write `gr", ""),
    ("update_dual", 'return {"mu": e}', "returned a vector 'mu', which client_state .*; declared: none", DUAL),
    ("finish", 'return {"c": w}', r"returned \{'c': .*; expected: two dicts, client vectors and uploads", ""),
    ("finish", 'return {}, {"delta": w.mean(dim=0)}', r"returned .*; expected: as upload 'delta' .* \(\d, any\)", ""),
    ("aggregate", 'server["w"].zero_()', r"returned None; expected: a dict of .*, with the model 'w'", ""),
    ("aggregate", 'return {"w": uploads["w"]}', rf"returned {ROWS}; expected: as 'w' a tensor \(1, \d+\)", ""),
    ("aggregate", 'return {"m": server["v"]}', "returned a vector 'm', .*: 'w', 'v'", 'server_state = ("v",)\n'),
    ("mix", "models.copy_(mixing(0) @ models)", r"returned None; expected: a dict of .*, with the model", PEERS),
    ("mix", 'return {"model": models[:1]}', rf"returned {ROWS}; expected: as 'model' a tensor \(6, \d+\)", PEERS),
]
EXECUTORS = "sequential", "stacked", "products"
SAMPLED = pytest.mark.parametrize("executor", sampled(EXECUTORS, ["stacked"]))


def hook(name: str, body: str) -> str:
    return f"def {name}(self, {ARGUMENTS[name]}):\n{indent(body, '    ')}\n"


def algorithm(outside, name: str, body: str, base: str = "FedAvg") -> str:
    """Write a file with an algorithm of ``body``; return its path."""
    return str(outside.write(name, f"class {name.title()}({base}):\n{indent(body, '    ')}\n"))


def trained(folder, name: str, executor: str = "stacked", rounds: int = 1, **changes) -> Simulation:
    run = simulation(folder, description(name, **changes), executor)
    advanced(run, rounds)
    return run


@pytest.mark.parametrize(
    ("mistake", "executor"),
    [*((mistake, "stacked") for mistake in MISTAKES), *((MISTAKES[3], executor) for executor in EXECUTORS)],
    ids=lambda value: value if isinstance(value, str) else f"{value[0]}: {value[1]}",
)
def test_a_wrong_value_is_refused_with_file_and_hook(tmp_path, outside, mistake, executor):
    name, body, words, attributes = mistake
    path = algorithm(outside, "fedbad", f"{attributes}\n{hook(name, body)}")
    with pytest.raises(FlatFedError, match=f"^{re.escape(path)}: Fedbad.{name}: {words}") as caught:
        trained(tmp_path, "fedbad", executor, **(RING if attributes == PEERS else {}))
    assert "\n" not in str(caught.value)


READ_ONLY = r"fedbad.py: Fedbad.%s: assigns to a mapping of ctx, .* return .* from a hook that returns vectors, or "
DRAWS = "^algorithm Fedbad or model TinyCNN draws from "
#: Hook, its body, the message.
FORBIDDEN = [
    ("correct", 'ctx.scratch["last"] = g', READ_ONLY % "correct"),
    ("start", 'ctx.client.update(c=w)', READ_ONLY % "start"),
    ("aggregate", 'server["w"] = uploads["w"].mean(dim=0, keepdim=True)', READ_ONLY % "aggregate"),
    ("correct", "return g * ctx.uniform(0, (1,))", r"ctx\.uniform: a local step may not draw; draw in `start`"),
    ("finish", '__import__("numpy").random.rand()\nreturn {}, {}', f"{DRAWS}NumPy's .*expected: ctx.uniform in a hook"),
]


@SAMPLED
@pytest.mark.parametrize(("name", "body", "message"), FORBIDDEN)
def test_a_job_refuses_written_mappings_and_random_numbers_of_a_hooks_own(
    tmp_path, outside, name, body, message, executor
):
    algorithm(outside, "fedbad", hook(name, body))
    run = simulation(tmp_path, description("fedbad"), executor)
    with pytest.raises(FlatFedError, match=message) as caught, repeats.checked(run):
        run.advance()
    assert "\n" not in str(caught.value)


LOSSES = {
    "a wrong gather": ("return -logits.log_softmax(dim=1).gather(1, labels)[:, 0]", "Index tensor must have the same"),
    "a mean": ("return -logits.log_softmax(dim=1)[:, 0].mean()", r"returned a tensor \(\) of torch.float64; expected:"),
    "a column": ("return -logits.log_softmax(dim=1)[:, :1]", r"returned a tensor \(\d, 1\) of torch.float64; exp"),
}


@SAMPLED
@pytest.mark.parametrize("mistake", LOSSES)
def test_a_wrong_shape_in_a_loss_is_not_the_models_mistake(tmp_path, outside, mistake, executor):
    body, message = LOSSES[mistake]
    path = algorithm(outside, "fedbad", hook("loss", body))
    run = simulation(tmp_path, description("fedbad"), executor)
    with pytest.raises(FlatFedError, match=f"^{re.escape(path)}: Fedbad.loss: {message}"), first_round.checked(run):
        run.advance()


def test_a_wrong_shape_in_a_transform_is_not_the_models_mistake(tmp_path, outside):
    body = "def front_size(self, image_shape):\n    return 2\n" + hook("transform", "return images + front")
    path = algorithm(outside, "fedbad", body)
    run = simulation(tmp_path, description("fedbad"))
    with pytest.raises(FlatFedError, match=f"^{re.escape(path)}: Fedbad.transform: .*size"), first_round.checked(run):
        run.advance()


#: The loss of label smoothing 0.3, in a hook.
SMOOTHED = '''logarithms = logits.log_softmax(dim=1)
return -0.7 * logarithms.gather(1, labels[:, None])[:, 0] - 0.3 * logarithms.mean(dim=1)
'''


@SAMPLED
def test_a_loss_without_a_second_model_applies(tmp_path, outside, executor):
    algorithm(outside, "fedloss", hook("loss", SMOOTHED))
    found, expected, plain = (
        weights(tmp_path, description(name, **changes), executor)
        for name, changes in (("fedloss", {}), ("fedavg", {"label_smoothing": 0.3}), ("fedavg", {}))
    )
    assert (found - expected).abs().max() < 1e-12 < (found - plain).abs().max()


def test_a_second_model_without_a_loss_is_refused(tmp_path, outside):
    path = algorithm(outside, "fedbad", hook("second_model", "return ctx.received"))
    message = f"^{re.escape(path)}: Fedbad.second_model: has no effect; expected: also a hook `loss`"
    with pytest.raises(FlatFedError, match=message):
        simulation(tmp_path, description("fedbad"))


DECLARED = 'gradients_per_step = 2\nclient_state = ("m", "c")\nserver_state = ("old",)\nscratch = ("first", "last")\n'
#: Hook -> its body as a function of the vectors, and with changes in place that are returned.
FORMS = {
    "start": (
        'return {"first": 0.1 * (w - ctx.client["c"]), "last": ctx.scratch["first"]}',
        'return {"first": ctx.scratch["first"].copy_(w).sub_(ctx.client["c"]).mul_(0.1)}',
    ),
    "perturbation": ("return 0.1 * gradient(w)", "return gradient(w).mul_(0.1)"),
    "update_dual": (
        'return {"m": 0.5 * ctx.client["m"] + e}',
        'return {"m": ctx.client["m"].mul_(0.5).add_(e)}',
    ),
    "correct": (
        'return g + ctx.client["m"] + ctx.scratch["first"]',
        'return g.add_(ctx.client["m"]).add_(ctx.scratch["first"])',
    ),
    "update": ("return w - ctx.lr * d", "return w.sub_(ctx.lr * d)"),
    "finish": (
        'return {"c": ctx.client["m"], "m": ctx.client["c"]}, {"part": ctx.client["m"][:, 5:], "w": 2 * w}',
        'm, c = ctx.client["m"].clone(), ctx.client["c"].clone()\n'
        'return {"c": ctx.client["c"].copy_(m), "m": ctx.client["m"].copy_(c)}, {"part": m[:, 5:], "w": w.mul_(2)}',
    ),
    "aggregate": (
        'mean = uploads["w"].mean(dim=0, keepdim=True) / 2 + uploads["part"].mean()\n'
        'return {"old": server["w"], "w": mean + 0.1 * server["old"]}',
        'old = server["w"].clone()\n'
        'mean = uploads["w"].mean(dim=0, keepdim=True) / 2 + uploads["part"].mean()\n'
        'server["w"].copy_(mean + 0.1 * server["old"])\n'
        'return {"w": server["w"], "old": server["old"].copy_(old)}',
    ),
}


AGAIN = "super().__init__()\nself.correct = lambda g, w, ctx: 2 * g"


#: Nodes that mix with their old models, in new tensors, and in place.
MIXED = [
    PEERS + 'client_state = ("old",)\n' + hook("begin", begins) + hook("mix", mixes)
    for begins, mixes in (
        ('return {"model": 2 * models, "old": models}',
         'return {"model": mixing(0) @ (models + ctx.client["old"]) / 2, "old": models}'),
        ('ctx.client["old"].copy_(models)\nreturn {"model": models.mul_(2)}',
         'last = models.clone()\nmodels.add_(ctx.client["old"]).div_(2)\n'
         'return {"model": models.copy_(mixing(0) @ models), "old": ctx.client["old"].copy_(last)}'),
    )
]


CLIENT = 'client_state = ("m",)\n'
#: Two texts of one algorithm each.
TWINS = {
    "changes in place": [
        "\n".join([DECLARED, *(hook(name, bodies[form]) for name, bodies in FORMS.items())]) for form in (0, 1)
    ],
    "a client's vector, clipped in a copy": [
        CLIENT + hook("correct", f'return ctx.client["m"].add_(g){end}') for end in ("", ".clone()")
    ],
    "a gradient that repeats one number": [
        hook("correct", f"return g.mean(dim=1, keepdim=True).expand_as(g){end}") for end in ("", ".clone()")
    ],
    "a hook that an algorithm sets itself": [
        f"def __init__(self):\n{indent(AGAIN, '    ')}",
        hook("correct", "return 2 * g"),
    ],
    "mixing": MIXED,
}


@SAMPLED
@pytest.mark.parametrize("twins", TWINS)
def test_two_texts_of_one_algorithm_agree(tmp_path, outside, twins, executor):
    """Also if a returned vector is the memory of another one, and with fewer rows in later steps."""
    found = []
    for name, body in zip(("fedone", "fedtwo"), TWINS[twins], strict=True):
        algorithm(outside, name, body, "Algorithm")
        run = simulation(tmp_path, description(name, clip_norm=0.1, **(RING if twins == "mixing" else {})), executor)
        losses = torch.tensor([line["test_loss"] for line in advanced(run, 4) if line])
        found.append({"losses": losses, **run.algorithm.evaluated(run.server), **run.state.store})
    for name, values in found[0].items():
        assert values.any() and (values - found[1][name]).abs().max() < 1e-12, name


FULL = "full_passes = 1\n\n" + hook("correct", 'return g.copy_(ctx.scratch["full_gradient"])')


@pytest.mark.parametrize("executor", EXECUTORS[:2])
def test_the_full_gradient_is_that_of_all_the_clients_images_without_augmentation(tmp_path, outside, executor):
    """Of one step from the received model, it is the gradient of FedAvg's batch, which has all images."""
    algorithm(outside, "fedfull", FULL)
    step = {"local_epochs": 1, "batch_size": 12, "clip_norm": None}
    found, plain = (
        trained(tmp_path, name, executor, augmentation=augmentation, **step).server["w"]
        for name, augmentation in (("fedfull", "crop_flip_half"), ("fedavg", "none"))
    )
    assert (found - plain).abs().max() < 1e-12


PAGE = (ROOT / "docs/add-an-algorithm.md").read_text(encoding="utf-8")


def test_the_pages_table_has_every_hook_with_its_arguments():
    rows = dict(re.findall(r"^\| `(\w+)\(([^)]*)\)` \|", PAGE, re.MULTILINE))
    for name in HOOKS.keys() - {"keeps_rows_whole", "stored_vectors"}:  # functions for the engine
        assert rows.pop(name).split(", ") == list(signature(HOOKS[name]).parameters)[1:]
    assert not rows


@SAMPLED
def test_the_pages_local_momentum_is_that_of_torch(tmp_path, outside, executor):
    """`momentum:` of a protocol equals torch's SGD (tests/oracle/test_second_implementation.py)."""
    (text,) = re.findall(r"```python\n([^`]*class LocalMomentum[^`]*)```", PAGE)
    (outside.folder / "localmomentum.py").write_text(text)
    found, expected = (
        weights(tmp_path, description(name, **changes), executor)
        for name, changes in (("localmomentum", {}), ("fedavg", {"momentum": 0.9}))
    )
    assert (found - expected).abs().max() < 1e-12
