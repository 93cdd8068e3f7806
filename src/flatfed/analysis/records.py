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

Eigenvalues and trace are in nats per squared unit of the weights. The same call gives the same numbers.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np

from flatfed.errors import DataError

FORMAT = 1
#: Metric of a table -> field of the file, and of its ``pyhessian``.
METRICS = {"hessian_top_eigenvalue": "top_eigenvalue", "hessian_trace": "trace"}
ERRORS = 3.0  # combined standard errors that two traces may be apart


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the content of a hessian.json.

    :raises DataError: the file is absent, damaged, or of another form.
    """
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        wrong = [name for name in METRICS.values() if not math.isfinite(record[name])]
        if wrong or record["format"] != FORMAT:
            raise ValueError(f"format {record['format']}, {wrong[0] if wrong else 'numbers'} as in no such file")
        if len(record["density"]["nodes"]) != len(record["density"]["weights"]):
            raise ValueError("nodes and weights of its density are not as many")
    except FileNotFoundError:
        raise DataError(f"{path}: no such Hessian; flatfed hessian makes it") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: cannot be read as a Hessian ({error!r}); delete it to make it again") from error
    return record


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
        rounding = 1e-6 * abs(ours[field])
        found[field] = {"difference": difference, "error": error, "within": abs(difference) <= error + rounding}
    return found


def smooth(density: dict[str, Any], at: np.ndarray, width: float) -> np.ndarray:
    """Return the spectral density at ``at`` (n,): the point masses of ``density`` as Gaussians of deviation ``width``.

    Its integral is 1; the mean over the random vectors.
    """
    nodes, weights = (np.concatenate(density[name]) for name in ("nodes", "weights"))
    bells = np.exp(-0.5 * ((np.asarray(at)[:, None] - nodes) / width) ** 2) / (width * math.sqrt(2 * math.pi))
    return bells @ weights / len(density["nodes"])
