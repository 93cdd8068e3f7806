"""The file ``hessian.json``: what it holds, and how tables and figures read it. Needs no torch.

::

    format            1
    run, algorithm, scale, digests     whose model it is: <protocol>/<split>/<algorithm>/seed<k>; SHA-256 of the run
                                       description, model file, dataset and partition
    loss              of what: the mean cross-entropy, without weight decay, in eval mode, unaugmented
    images, images_of, set             on how many images of which set, of how many; drawn by ``seed`` where fewer
    parameters, precision, device      length of a vector; how products were computed
    settings          what was asked for
    top_eigenvalue, trace              the estimates that tables print
    eigenvalues, residuals             (k,) the largest by value, falling; ||H v - lambda v|| of each
    trace_standard_error, trace_vectors
    density           nodes, weights: a list for each random vector; weights of a vector add up to 1
    pyhessian         PyHessian's version, top_eigenvalue, residual, trace, trace_standard_error, ...; null if left out
    agreement         of top_eigenvalue and trace: the difference of PyHessian's and ours, the error that both together
                      allow (sum of the residuals; three combined standard errors), and whether it is within
    converged         eigenvalues, trace: whether the stopping rule was met
    warnings          sentences, for a table's notes; none if all is well
    diverged_at       the round in which the run's numbers stopped being finite; then estimates are null, lists empty

Eigenvalues and trace are in nats per squared unit of the weights. The same call gives the same numbers.
"""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flatfed.errors import DataError

if TYPE_CHECKING:
    import numpy as np

FORMAT = 1
#: Metric of a table -> field of the file, and of its ``pyhessian``.
METRICS = {"hessian_top_eigenvalue": "top_eigenvalue", "hessian_trace": "trace"}
#: What stands in place of the estimates for a run that diverged.
NONE: dict[str, Any] = {
    **dict.fromkeys(METRICS.values()),
    **{"eigenvalues": [], "residuals": [], "trace_standard_error": None, "trace_vectors": 0},
    **{"density": {"nodes": [], "weights": []}, "pyhessian": None, "agreement": None},
    **{"converged": {"eigenvalues": False, "trace": False}, "warnings": []},
}
ERRORS = 3.0  # combined standard errors that two traces may be apart


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the content of a hessian.json.

    :raises DataError: the file is absent, damaged, or of another form.
    """
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        if record["format"] != FORMAT:
            raise ValueError(f"format {record['format']}, but {FORMAT} is known")
        if record.get("diverged_at") is None:
            _check(record)
    except FileNotFoundError:
        raise DataError(f"{path}: no such Hessian; flatfed hessian makes it") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: cannot be read as a Hessian ({error!r}); delete it to make it again") from error
    return record


def _check(record: dict[str, Any]) -> None:
    """Raise ValueError, KeyError or TypeError for estimates that are no numbers or do not fit each other."""
    for name in METRICS.values():
        found = [record[name]]
        if record["pyhessian"]:
            found += [record["pyhessian"][name], record["agreement"][name]["error"]]
        if not all(map(math.isfinite, found)):
            raise ValueError(f"{name} is not finite")
    if len(record["density"]["nodes"]) != len(record["density"]["weights"]):
        raise ValueError("nodes and weights of its density are not as many")


def model(record: dict[str, Any]) -> dict[str, Any]:
    """Return whose model a hessian.json is of: its run's ``name``, ``scale`` and ``digests``."""
    return {"name": record.get("run"), "scale": record.get("scale"), "digests": record.get("digests")}


def numbers(record: dict[str, Any]) -> dict[str, tuple[float, float | None]]:
    """Return metric -> (our estimate, PyHessian's or None where it was left out)."""
    other = record["pyhessian"] or {}
    return {metric: (record[field], other.get(field)) for metric, field in METRICS.items()}


def agreement(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, dict[str, float | bool]]:
    """Return how far two estimates are apart, the error that they allow together, and whether it covers that.

    Both have ``top_eigenvalue``, ``residual``, ``trace`` and ``trace_standard_error``. A symmetric matrix has an
    eigenvalue within ||H v - lambda v|| of lambda; traces may be ``ERRORS`` combined standard errors apart.
    """
    allowed = {
        "top_eigenvalue": ours["residual"] + theirs["residual"],
        "trace": ERRORS * math.hypot(ours["trace_standard_error"], theirs["trace_standard_error"]),
    }
    found = {}
    for field, error in allowed.items():
        difference = theirs[field] - ours[field]
        found[field] = {"difference": difference, "error": error, "within": _within(difference, error, ours[field])}
    return found


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
    field = METRICS[metric]
    if not records or not all(record["pyhessian"] for record in records):
        return None
    values = [record["pyhessian"][field] for record in records]
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


def cautions(record: dict[str, Any], metric: str) -> list[str]:
    """Return the sentences of ``warnings`` that are about ``metric``."""
    word = {"top_eigenvalue": "eigenvalue", "trace": "trace"}[METRICS[metric]]
    return [sentence for sentence in record["warnings"] if word in sentence]


def smooth(density: dict[str, Any], at: np.ndarray, width: float) -> np.ndarray:
    """Return the spectral density at ``at`` (n,): the point masses of ``density`` as Gaussians of deviation ``width``.

    Its integral is 1; the mean over the random vectors.
    """
    import numpy as np

    nodes, weights = (np.concatenate(density[name]) for name in ("nodes", "weights"))
    bells = np.exp(-0.5 * ((np.asarray(at)[:, None] - nodes) / width) ** 2) / (width * math.sqrt(2 * math.pi))
    return bells @ weights / len(density["nodes"])
