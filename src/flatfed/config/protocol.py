"""The files of config/protocols: a set-up, its preview and its labelled variants."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, Tag, model_validator

from flatfed.config.document import Content, Document, mistake, optional, require, required
from flatfed.config.values import (
    Count,
    Different,
    IdOfFile,
    Line,
    NotEmpty,
    NotNegative,
    Odd,
    Positive,
    Seeds,
    Share,
    as_given,
    by_type,
)

BelowOne = Annotated[float, Field(ge=0, lt=1), as_given]
Overrides = Annotated[dict[str, Any], Field(description="training keys or parameters of the algorithm")]
Patterns = Annotated[list[str], NotEmpty]

Device = Literal["sequential", "stacked", "graph"]
DEVICE = (
    "sequential (one client after another), stacked (all at once) or graph (on a GPU, recorded steps in which each "
    "layer computes all clients; run.json names this form `products`)"
)


class ExecutorDocument(Document):
    cpu: Device = optional(DEVICE)
    cuda: Device = optional(DEVICE)


class ProbeDocument(Document):
    every: Count = required("rounds between probes")
    images: Count = required("training images, drawn once, that represent the global data")
    rho: Positive = required("radius of the ascent step of both sharpness measures")
    m: Count = required("images in a batch of m-sharpness")


class Surface(Document):
    grid: Annotated[int, Field(ge=3, le=1001), Odd] = optional("points along a direction, odd")
    range: Positive = optional("distance to both sides, in filter norms")
    set: Literal["train", "test"] = optional("the images of the loss")
    images: Count = optional("number of images, drawn by the seed")


class HessianDocument(Document):
    images: Count = optional("training images, drawn by the seed")
    top: Annotated[int, Field(ge=1, le=1000)] = optional("eigenvalues")
    vectors: Annotated[Count, Field(ge=2)] = optional("largest number of random vectors for the trace")


class Analysis(Document):
    surface: Surface = optional("the loss around a model along two random directions")
    hessian: HessianDocument = optional("the Hessian of the training loss at a model")


class EvaluationDocument(Document):
    every: Count = optional("rounds between evaluations; the last round is always evaluated")
    sets: Annotated[list[Literal["test", "validation", "train", "clients", "nodes"]], NotEmpty, Different] = optional(
        "the sets evaluated: test (or validation, the images that `validation` holds out), train (all training "
        "images), clients (images of each client), or nodes (without a server, each node's own model on its own "
        "training images and, with client_test_images, on its own test images)"
    )
    batch_size: Count = optional("images in a batch of the evaluation")
    window: Count = optional("number of final evaluations whose mean a table prints; 1 is the final round")
    smoothing: Annotated[Count, Odd] = optional(
        "number of evaluations in the centred mean of the accuracy that reaches a target; 1 is the accuracy itself",
        1,
    )


class Model(Document):
    name: str = required("a model, the name of a file in src/flatfed/models or in `folders`")
    options: dict[str, Any] = optional("the model's options")
    weights: IdOfFile = optional("pre-trained weights to start from, the file resources/weights/<name>.pth")


class Exponential(Document):
    kind: Literal["exponential"] = required("a factor in each round, learning_rate_decay; the default")


class Cosine(Document):
    kind: Literal["cosine"] = required("half a period of a cosine")
    final_learning_rate: NotNegative = required("the learning rate after the last round")


class Steps(Document):
    kind: Literal["step"] = required("a factor after some rounds")
    milestones: Annotated[list[Count], NotEmpty, Different] = required(
        "numbers of rounds after which the learning rate is multiplied by factor"
    )
    factor: Share = required("above 0 and at most 1")


LearningRateSchedule = Annotated[Exponential | Cosine | Steps, Field(discriminator="kind")]


#: Training key -> the key whose place it takes, until a later source sets that key.
IN_PLACE_OF = {"local_steps": "local_epochs", "learning_rate_schedule": "learning_rate_decay"}
#: Training keys that are absent by default -> the value that has no effect.
ABSENT = {**dict.fromkeys(IN_PLACE_OF), "label_smoothing": 0, "momentum": 0, "batch_norm_second_pass": True}


class Changes(Document):
    """What a scale or a variant may change; absent keys stay."""

    rounds: Count = optional("communication rounds")
    batch_size: Count = optional("images in a mini-batch; the last one of an epoch may be smaller")
    local_epochs: Count = optional("passes over a client's images in one round")
    local_steps: Count = optional(
        "steps of each client in one round, in place of local_epochs; epochs go on over rounds"
    )
    learning_rate: Positive = optional("the clients' learning rate in the first round, above 0")
    learning_rate_decay: Share = optional("the learning rate's factor from round to round, above 0 and at most 1")
    learning_rate_schedule: LearningRateSchedule = optional(
        "the learning rate of each round, such as {kind: cosine, final_learning_rate: 0.001}; a constant one is "
        "learning_rate_decay: 1.0"
    )
    momentum: BelowOne = optional(
        "of the local steps, as in torch's SGD, after weight decay; zero at the start of a client's round"
    )
    label_smoothing: BelowOne = optional("of the training loss and train_loss, as in torch; evaluations have none")
    batch_norm_second_pass: bool = optional(
        "true (the default) if also the second gradient of a step, as at the perturbed weights of SAM, updates the "
        "running statistics of BatchNorm"
    )
    weight_decay: NotNegative = optional("coefficient of w added to the direction after the clip")
    clip_norm: Positive | None = optional("the direction's largest norm, above 0; null for no clip")
    augmentation: Literal["none", "crop_flip_half", "crop_flip_batch"] = optional(
        "none, crop_flip_half (crop with probability 1/2, flip with probability 1/2) or crop_flip_batch (one crop and "
        "one flip with probability 1/2 for a whole batch)"
    )
    precision: Literal["float32", "float64", "bfloat16"] = optional(
        "floating-point format of weights and gradients; bfloat16 is float32 with the model of a training step in "
        "bfloat16"
    )
    executor: ExecutorDocument = optional("how the clients of a round are trained on each kind of device")
    probe: ProbeDocument = optional(
        "sharpness and perturbation drift during training; with an algorithm that perturbs, each probe costs more "
        "than a round of all clients"
    )
    analysis: Analysis = optional("settings of the analyses of finished runs that differ from the defaults")
    evaluation: EvaluationDocument = optional("what is evaluated, and when")
    rows: Count = optional("largest number of clients that train at a time; by default, the executor decides")
    state: Literal["device", "memory", "file"] = optional(
        "where the clients' vectors are: on the device, in the host's memory or in a temporary file; by default, on a "
        "GPU with twice the room, otherwise in memory"
    )
    model: Model = optional("the model, such as {name: cnn}")
    seeds: Seeds = optional("seeds of the runs, whole numbers from 1 up")
    algorithms: dict[str, Overrides] = optional(
        "per algorithm, parameters and training keys that differ from the defaults", {}
    )
    validation: Annotated[float, Field(gt=0, lt=1)] = optional(
        "share of each client's training images that is held out, for evaluation.sets with validation in place of test"
    )
    accuracy: Literal[
        "test_accuracy", "client_test_accuracy", "validation_accuracy", "client_validation_accuracy"
    ] = optional(
        "the accuracy for targets and the best round: test_accuracy (the default), on all test images, or "
        "client_test_accuracy, the mean over clients on test images drawn to their labels; or one of them on held-out "
        "training images, validation_accuracy or client_validation_accuracy",
        "test_accuracy",
    )
    targets: dict[
        str,
        Annotated[
            dict[IdOfFile, Annotated[Share, Field(description="an accuracy, a fraction between 0 and 1")]],
            Field(description="target accuracies by name, t1 and so on"),
        ],
    ] = optional("target accuracies by split; the first pattern that matches its id applies (* matches any text)", {})

    @model_validator(mode="after")
    def _has_one_of_two_keys(self) -> Self:
        written = {} if isinstance(self, Settings) else self.as_written()  # Settings join several documents
        for key, other in IN_PLACE_OF.items():
            if key in written and other in written and written[key] != {"kind": "exponential"}:
                raise mistake([other], f"{key} takes its place; remove one of them")
        return self


#: A user's protocol: FedSMOO's set-up (5.1 and official code) without augmentation, since flipping can change a class.
DEFAULTS: dict[str, Any] = {
    **{"batch_size": 50, "local_epochs": 5, "learning_rate": 0.1, "learning_rate_decay": 0.998, "weight_decay": 0.001},
    **{"clip_norm": 10.0, "augmentation": "none", "precision": "float32", "seeds": [1, 2]},
    "executor": {"cpu": "sequential", "cuda": "stacked"},
    "evaluation": {"every": 1, "sets": ["test"], "batch_size": 1000, "window": 1, "smoothing": 1},
}


class Preview(Changes):
    dataset: str = required("an id of config/datasets.yaml")
    clients_times: Positive = required("a split's number of clients is multiplied by this")
    participation_times: Positive = required("a split's participation is multiplied by this, up to 1")
    rounds: Count = required("communication rounds")
    client_test_images: Count = optional(
        "evaluation of clients and nodes only, number of test images drawn to the label distribution of each"
    )


class Open(Document):
    says: str = required("the choice and its reason")
    rows: Patterns = optional("ids of config/algorithms.yaml, * for any text")
    splits: Patterns = optional("ids of config/splits.yaml, * for any text")


Unstated = dict[
    IdOfFile,
    Annotated[
        Annotated[str, Tag("string")] | Annotated[Open, Tag("object")],
        by_type,
        Field(
            description="the choice and its reason; or both as `says`, with the `rows` or `splits` concerned (* "
            "matches any text)"
        ),
    ],
]


class Variant(Changes):
    label: Line = optional("name of the variant, in a few words")
    unstated: Unstated = optional("further choices, as in the protocol")
    preview: Changes = optional("changes at preview scale")


class Protocol(Changes):
    label: Line = optional("name of the set-up, in a few words; without a paper, the id by default")
    paper: Line = optional("the paper of the set-up; every setting is then required")
    dataset: str = required("the id of a dataset")
    model: Model = required("the model, such as {name: cnn}")
    rounds: Count = required("communication rounds")
    client_test_images: Count = Preview.model_fields["client_test_images"]
    unstated: Unstated = optional(
        "settings that the paper leaves open, with the choice and its reason; printed under tables", {}
    )
    preview: Preview = optional("changes at preview scale; without them, the protocol has the paper scale only")
    variants: dict[IdOfFile, Annotated[Variant, Field(description="changes of the protocol")]] = optional(
        "labelled variants, label to changes; dataset and partitions stay"
    )

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        """A paper's set-up leaves nothing to defaults."""
        if "paper" in self.model_fields_set:
            replaced = {other for key, other in IN_PLACE_OF.items() if key in self.model_fields_set}
            require(self, ("label", "preview", *(key for key in DEFAULTS if key not in replaced)))
            require(self.evaluation, ("every", "sets", "batch_size", "window"), ["evaluation"])
            require(self.executor, ("cpu", "cuda"), ["executor"])
        return self


class Settings(Protocol):
    """All settings of a protocol or labelled variant at a scale; only optional parts are None."""

    clients_times: Positive = optional(Preview.model_fields["clients_times"].description, 1)
    participation_times: Positive = optional(Preview.model_fields["participation_times"].description, 1)


PROTOCOL = Content(Protocol)
CHANGES = Content(Changes)
SCHEDULE = Content(LearningRateSchedule)
