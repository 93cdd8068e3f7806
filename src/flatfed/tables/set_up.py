"""The lines of a table or figure on the set-up of its runs: title, data, clients, model, rounds, open choices."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from flatfed import algorithms as registry
from flatfed.config.protocol import Open
from flatfed.data import manifest as manifests
from flatfed.errors import DataError
from flatfed.plan.at_scale import SetUp, ShownFigure, ShownTable
from flatfed.plan.figures import PROBED_LOSS, PROBES
from flatfed.plan.protocols import matching_any
from flatfed.runs import graphs
from flatfed.runs.paths import without_label
from flatfed.runs.record import RunRecord
from flatfed.runs.run import Run
from flatfed.runs.run_config import RunConfig

Key = TypeVar("Key")

#: Dataset -> the different numbers of images that runs read, none if their records lack them.
Counts = Mapping[str, set[int]]

#: Why tables show the Hessian scaled by the weights.
SCALED = (
    "Scaled: of diag(|w|) H diag(|w|). It does not change if filters ahead of normalisation become longer, which "
    "changes H but not the model's function. Models that differ in H alone may differ only in the lengths of filters."
)


def title(shown: ShownTable | ShownFigure) -> str:
    """Return the title; that of a preview is "Preview on digits, 14 to 20 rounds: Table 1 of FedSMOO"."""
    document, set_ups = shown.document, shown.set_ups
    if shown.scale == "paper":
        return document.title
    data = dict.fromkeys(set_up.dataset.label for set_up in set_ups)
    rounds = {set_up.settings.rounds for set_up in set_ups if set_up.trained}
    ends = " to ".join(map(str, sorted({min(rounds), max(rounds)}))) if rounds else ""
    parts = ["Preview" + " on " * bool(data) + " / ".join(data), ends and f"{ends} rounds"]
    printed, place = document.paper or document.title, re.search(r"(Table|Figure) .*", document.paper or "")
    name = re.match(r"[a-z]+(?=\d{4}_)", shown.id)
    if place and name and name[0] in registry.names():
        printed = f"{place[0]} of {registry.load(name[0]).__name__}"
    return f"{', '.join(filter(None, parts))}: {printed}"


def setting(shown: ShownTable | ShownFigure, counts: Counts | None = None) -> str:
    """Return one line on data, clients, model and rounds; that of a preview names the protocols if there are several.

    ``counts``: :func:`image_counts` of the runs; None: the line does not count images.

    :raises DataError: a dataset.json is damaged.
    """
    protocols = grouped((_text(set_up, counts), set_up.protocol) for set_up in shown.set_ups)
    several = shown.scale != "paper" and len({set_up.protocol for set_up in shown.set_ups}) > 1
    return "; ".join(f"{' and '.join(names)}: {text}" if several else text for text, names in protocols.items())


def grouped(pairs: Iterable[tuple[Key, str]]) -> dict[Key, list[str]]:
    """Return key -> its different values."""
    groups: dict[Key, dict[str, None]] = {}
    for key, value in pairs:
        groups.setdefault(key, {})[value] = None
    return {key: list(values) for key, values in groups.items()}


def image_counts(records: Iterable[RunRecord]) -> Counts:
    """Return the numbers of images of the datasets of ``records``."""
    counts: dict[str, set[int]] = {}
    for record in records:
        numbers = counts.setdefault(record.config.dataset.name, set())
        if record.images:
            numbers.add(sum(record.images.values()))
    return counts


def unknown_images(set_ups: Iterable[SetUp], records: Iterable[RunRecord]) -> list[str]:
    """Return :func:`flatfed.data.manifest.doubt` of the images of ``records``."""
    files = {set_up.settings.dataset: set_up.manifest for set_up in set_ups}
    notes = []
    for name, digest in sorted({(record.config.dataset.name, record.dataset_digest) for record in records}):
        manifest = None
        with contextlib.suppress(FileNotFoundError, DataError):  # an unreadable one proves nothing
            manifest = manifests.read(files[name]) if name in files else None
        notes.append(manifests.doubt(name, digest, manifest))
    return list(filter(None, notes))


def unstated(set_ups: Iterable[SetUp], runs: Iterable[Run]) -> list[str]:
    """Return "key: value, and reason" of every choice of ``runs`` that their paper does not state.

    An entry of ``unstated:`` applies to the ``rows`` and ``splits`` that it lists, to the algorithm that is its key, or
    to all.
    """
    trained, algorithms = _by_row(runs), registry.names()
    lines: dict[str, None] = {}
    for set_up in set_ups:
        of_set_up = [run for run in trained if (run.protocol, run.split) == (set_up.protocol, set_up.split)]
        for key, entry in set_up.settings.unstated.items():
            line = Open(says=entry) if isinstance(entry, str) else entry
            rows = line.rows or ([key] if key in algorithms else ["*"])
            if matching_any(line.splits or ["*"], set_up.split) and any(
                matching_any(rows, run.algorithm, without_label(run.algorithm)) for run in of_set_up
            ):
                lines[f"{key.replace('_', ' ')}: {line.says}"] = None
    return list(lines)


def choices(runs: Iterable[Run], labels: Mapping[str, str]) -> list[str]:
    """Return the lines on choices of ``runs`` between a paper and its code; ``labels``: algorithm -> its name."""
    lines = []
    for run in _by_row(runs):
        for name, choice in registry.load(run.config.update.name).parameters().items():
            if not isinstance(choice, registry.Choice) or not choice.concerns_paper:
                continue
            value = run.config.update.params[name]
            reason = f" ({choice.reason})" if choice.reason and value == choice.default else ""
            line = f"{_source_followed(name, value, choice)} {choice.doc}{reason}"
            # Choices with options of other code are reported if they are not the default.
            lines.append((run, name, "" if choice.public_code and value == choice.default else line))
    return [f"{', '.join(names)}{scope}: {line}." for (scope, _, line), names in _scoped(lines, labels).items()]


def training(runs: Iterable[Run], labels: Mapping[str, str]) -> list[str]:
    """Return the lines on learning rates, momentum, label smoothing, BatchNorm and local steps of ``runs``."""
    lines = [(run, "", _local_training(run.config)) for run in _by_row(runs)]
    texts = _scoped(lines, labels).items()
    return [f"Local training of {', '.join(names)}{scope}: {text}." for (scope, _, text), names in texts]


def _scoped(lines: Iterable[tuple[Run, str, str]], labels: Mapping[str, str]) -> dict[tuple[str, str, str], list[str]]:
    """Return (scope, topic, text) -> names of the algorithms, for ``lines`` of run, topic and text, perhaps "".

    The scope names the protocols if the algorithm has another text on the topic in another protocol.
    """
    protocols = grouped(((run.algorithm, topic, text), run.protocol) for run, topic, text in lines)
    variety, pairs = Counter((algorithm, topic) for algorithm, topic, _ in protocols), []
    for (algorithm, topic, text), names in protocols.items():
        scope = f" in {' and '.join(names)}" if variety[algorithm, topic] > 1 else ""
        if text:
            pairs.append(((scope, topic, text), labels[algorithm]))
    return grouped(pairs)


def _local_training(config: RunConfig) -> str:
    parts = []
    if schedule := config.learning_rate_schedule:
        if schedule.kind == "cosine":
            shape = f"falls to {schedule.final_learning_rate} along a cosine over all rounds"
        else:
            shape = f"is multiplied by {schedule.factor} after {' and '.join(map(str, schedule.milestones))} rounds"
            late = [str(number) for number in schedule.milestones if number >= config.rounds]
            shape += f" ({' and '.join(late)}: never reached in {config.rounds} rounds)" if late else ""
        parts.append(f"the learning rate {shape}")
    if config.momentum:
        own = " on top of the algorithm's own" * registry.load(config.update.name).own_momentum
        parts.append(f"momentum {config.momentum}{own}, zero at the start of a client's round")
    if config.label_smoothing:
        smoothed = "also in train_loss; evaluations, Hessians and surfaces have none"
        parts.append(f"label smoothing {config.label_smoothing} ({smoothed})")
    if config.batch_norm_second_pass is False:
        parts.append("running statistics of BatchNorm from the first pass of a step alone")
    if config.local_epochs is None:
        parts.append(f"{config.local_steps} local steps a round in place of epochs")
    return "; ".join(parts)


def hessians(runs: Iterable[Run], printed: bool) -> list[str]:
    """Return a line for every number of images of the Hessians of ``runs``; ``printed``: papers do not state them."""
    loss = "Hessian: of the mean cross-entropy at the final model, in eval mode, without weight decay and augmentation"
    subset = "training images drawn at random, or on all if fewer" + "; the papers name none of these" * printed
    images = dict.fromkeys(run.analyses["hessian"]["images"] for run in runs)
    return [f"{loss}, on {count:,} {subset}." for count in images]


def caption(figure: ShownFigure) -> str:
    """Return the caption of a figure, with the definitions of its measures."""
    texts = [*filter(None, [figure.document.caption]), *_probes(figure)]
    runs = figure.runs.values()
    texts += hessians(runs, figure.scale == "paper") if figure.kind == "eigenvalues" else []
    return " ".join([*texts, *training(runs, figure.labels), *figure.row_notes])


def _probes(figure: ShownFigure) -> Iterator[str]:
    """Yield the definitions of a figure's probe measures and of their loss."""
    settings = {set_up.protocol: set_up.settings.probe for set_up in figure.set_ups}
    panels = [panel for panel in figure.panels if panel.metric in PROBES]
    probes = [(panel.metric, vars(settings[mark.protocol])) for panel in panels for mark in panel.marks]
    yield from dict.fromkeys(PROBES[metric].definition.format(**probe) for metric, probe in probes)
    yield from dict.fromkeys(PROBED_LOSS.format(**probe) for _, probe in probes)


def _text(set_up: SetUp, counts: Counts | None) -> str:
    settings, split = set_up.settings, set_up.of_split
    clients, central = split.partition.clients, split.partition.scheme == "central"
    images = "" if counts is None else f" ({_images(set_up, counts)})"
    parts = [f"{set_up.dataset.label}{images}", "all at one place" if central else f"{clients} clients"]
    if not set_up.trained:
        return ", ".join(parts)
    if not central:
        parts.append(f"{100 * split.sampling.fraction:g}% active")
    count, unit = settings.local_steps or settings.local_epochs, "step" if settings.local_steps else "epoch"
    length = "as many steps as a federated one" if central else f"{count} local {unit}{'s' if count > 1 else ''}"
    model = settings.model
    options = ", ".join(f"{name} = {value}" for name, value in (model.options or {}).items())
    parts.append(model.name + f" ({options})" * bool(options))
    parts += [f"{settings.rounds} rounds of {length}", f"batch {settings.batch_size}"]
    if topology := split.topology:
        from flatfed.engine.topology import Topology  # with numpy

        detail = f" of {topology.neighbours}"
        if topology.graph in graphs.STATIC:
            detail = f" (spectral gap {Topology(topology, clients, 0).spectral_gap:.4f})"
        parts.append(f"decentralised rows: {topology.graph}{detail}")
    return ", ".join(parts)


def _images(set_up: SetUp, counts: Counts) -> str:
    """Return the number of images: of the runs, else of the data on this machine, else the declared one."""
    dataset, numbers = set_up.dataset, counts.get(set_up.settings.dataset)
    _, height, width = dataset.shape
    reason = "the records of the runs do not count them"
    if numbers is None:
        try:
            manifest = manifests.read(set_up.manifest)
            numbers, (_, height, width) = {manifest.train + manifest.test}, manifest.shape
        except FileNotFoundError:
            reason = "they are not on this machine"
    if not numbers:
        return f"{dataset.train + dataset.test:,} images of {height}x{width} declared; {reason}"
    part = f" of {dataset.declared_images:,}" if min(numbers) < dataset.declared_images else ""
    return f"{' or '.join(f'{count:,}' for count in sorted(numbers))}{part} images of {height}x{width}"


def _by_row(runs: Iterable[Run]) -> list[Run]:
    """Return one run of each protocol, split and algorithm: notes do not depend on seeds."""
    return list({run.row: run for run in runs}.values())


def _source_followed(name: str, value: str | int, choice: registry.Choice) -> str:
    """Return which source the ``value`` of the choice ``name`` follows."""
    option = str(value).replace("_", " ")
    if value in ("paper", "official_code"):
        return f"the {option} is followed in {name},"
    if value in choice.public_code:
        return f"{name} is that of {value}, not the paper's:"
    return f"{name} is {option!r}, not the {'paper' if 'paper' in choice.options else 'official code'}'s:"
