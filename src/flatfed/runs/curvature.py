"""The file ``hessian.json``: what it holds, and how tables and figures read it. Needs no torch.

::

    format            2
    run, algorithm, scale, digests     whose model it is: <protocol>/<split>/<algorithm>/seed<k>; SHA-256 of the run
                                       description, model file, dataset and partition
    loss              of what: the mean cross-entropy, without weight decay, in eval mode, unaugmented
    images, images_of, set             on how many images of which set, of how many; drawn by ``seed`` where fewer
    parts             into how many parts the images are split for the error of their choice; 0: all images are taken
    parameters, precision, device      length of a vector; how products were computed
    settings          what was asked for
    at_once           images on a graph and vectors on it in the end: fewer than asked for where memory ran out
    top_eigenvalue, trace              the estimates that tables print
    eigenvalues, residuals             (k,) the largest by value, falling; ||H v - lambda v|| of each
    certain           (k,) whether each has its place for certain: False after an eigenvalue that was found as often as
                      a block has vectors, of which there may be more copies
    trace_standard_error, trace_vectors           of the random vectors, and how many there were
    top_eigenvalue_images_error, trace_images_error   standard error of the choice of images, from ``parts``; 0: all
    top_eigenvalue_interval, trace_interval       [low, high], 95 %, of the number on all ``images_of`` images
    converged         eigenvalues, trace: whether the stopping rule was met
    scaled            all from ``top_eigenvalue`` to here, of W H W with W = diag(|w|): what no scaling can change
    density           nodes, weights: a list for each random vector; weights of one add up to 1; null: not asked for
    pyhessian         PyHessian's version, top_eigenvalue, residual, trace, trace_standard_error, ...; null if left out
    pyhessian_absent  why there is none of PyHessian's where it was asked for; else null
    agreement         of top_eigenvalue and trace: the difference of PyHessian's and ours, the error that both together
                      allow on these images (:func:`agreement`), and whether it is within
    warnings          sentences, for a table's notes; none if all is well
    diverged_at       the round in which the run's numbers stopped being finite; then estimates are null, lists empty

Eigenvalues and trace are in nats per squared unit of the weights, those of ``scaled`` in nats. The same call gives the
same numbers.

**What no scaling can change.** With ReLU or normalisation layers a filter, with its bias, can be made a times as long
and what follows it 1/a times, and the model stays the same function; its Hessian does not: its entries are divided by
a^2 there and multiplied by it here, so that of two such models the one with longer filters looks flatter. The entries
of W H W are w_i w_j H_ij, in which every such factor cancels, for each filter by itself: to second order this is the
element-wise adaptive sharpness of Kwon, Kim, Park and Choi, ASAM, ICML 2021, section 3, at its largest (the top
eigenvalue) or on average (the trace). The lengths of whole filters, as in
:mod:`flatfed.analysis.landscape.directions`, cancel only what scales all filters of a layer alike: one that is made
longer changes how long the next layer's are, each by another factor.

Format 1 has the numbers of the Hessian itself alone: no ``scaled``, no errors of the choice of images, ``certain`` or
intervals, which are null where it is read, and an ``agreement`` by three standard errors, which is made again.
"""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Sequence
from typing import Any

from flatfed.errors import DataError

FORMAT = 2
#: Metric of a table -> whether it is of the scaled Hessian, and the field of its estimates (and of ``pyhessian``).
METRICS = {
    "hessian_top_eigenvalue": (False, "top_eigenvalue"),
    "hessian_trace": (False, "trace"),
    "hessian_scaled_top_eigenvalue": (True, "top_eigenvalue"),
    "hessian_scaled_trace": (True, "trace"),
}
FIELDS = ("top_eigenvalue", "trace")
#: What stands in front of a warning of the scaled Hessian.
SCALED = "scaled by the weights: "
_NO_ESTIMATES: dict[str, Any] = {
    **dict.fromkeys(f"{field}{what}" for field in FIELDS for what in ("", "_images_error", "_interval")),
    **{"eigenvalues": [], "residuals": [], "certain": [], "trace_standard_error": None, "trace_vectors": 0},
    **{"converged": {"eigenvalues": False, "trace": False}},
}
#: What stands in place of the estimates for a run that diverged.
NONE: dict[str, Any] = {
    **_NO_ESTIMATES,
    **{"scaled": _NO_ESTIMATES, "density": None, "warnings": []},
    **dict.fromkeys(("pyhessian", "pyhessian_absent", "agreement")),
}
#: Probability that two traces of one Hessian are no further below each other than their errors allow, nor above: that
#: of three deviations of a normal distribution.
ALLOWED = 0.99865


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the content of a hessian.json, one of format 1 completed by null.

    :raises DataError: the file is absent, damaged, or of another form.
    """
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        if record["format"] not in (1, FORMAT):
            raise ValueError(f"format {record['format']}, but 1 and {FORMAT} are known")
        if record.get("diverged_at") is None:
            _check(record)
        return record if record["format"] == FORMAT else _completed(record)
    except FileNotFoundError:
        raise DataError(f"{path}: no such Hessian; flatfed hessian makes it") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: cannot be read as a Hessian ({error!r}); delete it to make it again") from error


def _check(record: dict[str, Any]) -> None:
    """Raise ValueError, KeyError or TypeError for estimates that are no numbers or do not fit each other."""
    groups = [record] if record["format"] == 1 else [record, record["scaled"]]
    for name in FIELDS:
        found = [group[name] for group in groups]
        if record["pyhessian"]:
            found += [record["pyhessian"][name], record["agreement"][name]["error"]]
        if not all(map(math.isfinite, found)):
            raise ValueError(f"{name} is not finite")
    density = record["density"]
    if density and len(density["nodes"]) != len(density["weights"]):
        raise ValueError("nodes and weights of its density are not as many")


def _completed(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record of format 1 with all keys of today's, null where it cannot say."""
    absent = ["scaled", "certain", "parts", "at_once", "pyhessian_absent"]
    absent += [f"{field}{what}" for field in FIELDS for what in ("_images_error", "_interval")]
    record = {"diverged_at": None, **record, **dict.fromkeys(absent)}
    if record["pyhessian"]:
        record["agreement"] = agreement({**record, "residual": record["residuals"][0]}, record["pyhessian"])
    return record


def model(record: dict[str, Any]) -> dict[str, Any]:
    """Return whose model a hessian.json is of: its run's ``name``, ``scale`` and ``digests``."""
    return {"name": record.get("run"), "scale": record.get("scale"), "digests": record.get("digests")}


def has(record: dict[str, Any], metric: str) -> bool:
    """Return whether a record of a run that did not diverge has ``metric``: one of format 1 has nothing scaled."""
    return not METRICS[metric][0] or record["scaled"] is not None


def estimates(record: dict[str, Any], metric: str) -> dict[str, Any]:
    """Return the estimates that ``metric`` is one of: those of the Hessian, or of the scaled one.

    :raises DataError: there are none: the file is of format 1.
    """
    if not has(record, metric):
        raise DataError(
            f"{record['run']}: its hessian.json is of format 1, without the Hessian scaled by the weights; delete it "
            "to make it again"
        )
    return record["scaled"] if METRICS[metric][0] else record


def value(record: dict[str, Any], metric: str) -> float:
    """Return our estimate of ``metric``; raises what :func:`estimates` does."""
    return estimates(record, metric)[METRICS[metric][1]]


def theirs(record: dict[str, Any], metric: str) -> float | None:
    """Return PyHessian's estimate of ``metric``, None where there is none; it has none of the scaled Hessian."""
    scaled, field = METRICS[metric]
    return record["pyhessian"][field] if record["pyhessian"] and not scaled else None


def agreement(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, dict[str, float | bool]]:
    """Return how far two estimates on the same images are apart, what error they allow, and whether it covers that.

    Both have ``top_eigenvalue``, ``residual``, ``trace``, ``trace_standard_error`` and ``trace_vectors``. A symmetric
    matrix has an eigenvalue within ||H v - lambda v|| of lambda; traces may be half of Student's interval of their
    difference apart, which is wider the fewer the vectors were (``ALLOWED``).
    """
    errors = [(each["trace_standard_error"], each["trace_vectors"] - 1) for each in (ours, theirs)]
    allowed = {
        "top_eigenvalue": ours["residual"] + theirs["residual"],
        "trace": half_width(errors, ALLOWED),
    }
    found = {}
    for field, error in allowed.items():
        difference = theirs[field] - ours[field]
        found[field] = {"difference": difference, "error": error, "within": _within(difference, error, ours[field])}
    return found


def half_width(errors: Sequence[tuple[float, int]], probability: float = 0.975) -> float:
    """Return half the width of the two-sided interval around a sum of independent estimates, by Student's t.

    ``errors``: (standard error, degrees of freedom) of each; those of the sum are Welch's and Satterthwaite's, rounded
    down. ``probability``: of lying below the upper bound. Infinite where an error is.
    """
    squares = [(error * error, freedom) for error, freedom in errors]
    total = sum(square for square, _ in squares)
    if not 0 < total < math.inf:
        return math.sqrt(total)
    from scipy.special import stdtrit

    freedom = 1 / sum((square / total) ** 2 / freedom for square, freedom in squares if square)
    return float(stdtrit(max(1, int(freedom + 1e-9)), probability)) * math.sqrt(total)


def _within(difference: float, error: float, ours: float) -> bool:
    """Return whether an error covers a difference, but for rounding."""
    return abs(difference) <= error + 1e-6 * abs(ours)


def beside(records: Sequence[dict[str, Any]], metric: str) -> dict[str, Any] | None:
    """Return PyHessian's estimate of ``metric`` over the seeds of ``records``, None where one of them lacks it.

    ``by`` whom, ``values``, their mean ``value`` and sample deviation ``spread`` (None for one); ``difference`` of its
    mean and ours, the ``error`` that both means together allow, and whether it is ``within``. That error is the mean
    over seeds of :func:`agreement`'s: a bound even where errors do not cancel, such as those of traces that were made
    with the same random vectors.
    """
    field = METRICS[metric][1]
    values = [theirs(record, metric) for record in records]
    if not values or None in values:
        return None
    ours = statistics.fmean(record[field] for record in records)
    errors = [record["agreement"][field]["error"] for record in records]
    error = statistics.fmean(errors)
    difference = statistics.fmean(values) - ours
    return {
        "by": "PyHessian",
        "value": statistics.fmean(values),
        "spread": statistics.stdev(values) if len(values) > 1 else None,
        "values": values,
        "difference": difference,
        "error": error,
        "within": _within(difference, error, ours),
    }


def errors(records: Sequence[dict[str, Any]], metric: str) -> dict[str, float] | None:
    """Return the largest errors of one estimate of ``metric`` over the seeds of ``records``, as shares of it.

    ``estimate``: the residual of an eigenvalue, the standard error of a trace from its random vectors; ``images``: the
    standard error of the choice of images. None where a record does not say (format 1) or an estimate is zero.
    """
    field = METRICS[metric][1]
    found: dict[str, list[float]] = {"estimate": [], "images": []}
    for record in records:
        group = estimates(record, metric)
        if group[f"{field}_images_error"] is None or not group[field]:
            return None
        own = group["residuals"][0] if field == "top_eigenvalue" else group["trace_standard_error"]
        for name, error in (("estimate", own), ("images", group[f"{field}_images_error"])):
            found[name].append(error / abs(group[field]))
    return {name: max(shares) for name, shares in found.items()} if records else None


def cautions(record: dict[str, Any], metric: str) -> list[str]:
    """Return the sentences of ``warnings`` that are about ``metric``."""
    scaled, field = METRICS[metric]
    word = {"top_eigenvalue": "eigenvalue", "trace": "trace"}[field]
    return [said for said in record["warnings"] if word in said and said.startswith(SCALED) == scaled]
