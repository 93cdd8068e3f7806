"""Costs: rounds, communication and seconds to a target, and the declared costs of a round."""

from __future__ import annotations

from flatfed.papers.quantity import Reading, metric

#: Bytes of one transmitted parameter (float32).
PARAMETER = 4


@metric(
    *("rounds", "Rounds to target", "round"),
    higher=False,
    needs_target=True,
    defined="A target counts as reached in the first round whose accuracy, unsmoothed, is at or above it.",
)
def rounds_to_target(reading: Reading) -> float | None:
    """Communication rounds until the protocol's accuracy, unsmoothed, first reaches the target.

    FedSMOO, Table 6, "communication rounds required to achieve the target test accuracy". Once
    reached, a target stays reached, as in the papers, whose final accuracy can be below it (FedSAM Table 1, FedRobust).
    """
    return reading.at_crossing("round")


TRAFFIC = ("download_bytes", "upload_bytes")


@metric(
    *("parameters", "Communication cost to target, as the papers count it", *TRAFFIC),
    higher=False,
    needs_target=True,
    declares=True,
    defined=(
        "Communication is counted as the papers do: twice the larger of an active client's two directions, so that a "
        "row with two vectors down and one up, FedCM or MoFedSAM, counts as two each way. What is really sent: the "
        "metrics download_to_target and upload_to_target."
    ),
)
def communication_cost(reading: Reading) -> float | None:
    """Parameters until the target is reached, counted as the papers do: twice the larger of the two directions.

    FedSMOO, Table 3: costs are rounds times 1 or 2; FedCM and MoFedSAM, with two vectors down and one up, count 2.
    FedLESAM, Tables 5 and 9, "gigabytes of parameters": FedAvg's 156 at 723 rounds are its model, down and up, ten
    clients a round (to 4 %, unexplained); FedLESAM-D counts 2, as in its Table 7 (``Algorithm.counted``).
    ``download_to_target`` and ``upload_to_target`` are the bytes really sent.
    """
    traffic = reading.at_crossing("download_bytes"), reading.at_crossing("upload_bytes")
    if None in traffic:
        return None
    sent = max(reading.algorithm.communication)
    return 2 * max(traffic) / PARAMETER * (reading.algorithm.counted or sent) / sent


@metric("bytes", "Bytes sent to clients until target", *TRAFFIC, higher=False, needs_target=True)
def download_to_target(reading: Reading) -> float | None:
    """Bytes that the active clients received until the target was reached."""
    return reading.at_crossing("download_bytes")


@metric("bytes", "Bytes sent by clients until target", *TRAFFIC, higher=False, needs_target=True)
def upload_to_target(reading: Reading) -> float | None:
    """Bytes that the active clients sent until the target was reached."""
    return reading.at_crossing("upload_bytes")


#: The seconds of a round: FedLESAM, Table 8, "including training, loading and evaluation"; the official code's clock
#: includes an evaluation of all training and all test images after every round.
WALL = (
    "Seconds of a round: training and loading of the expected number of clients, and an evaluation of all training and "
    "all test images after it, as the official code's clock runs."
)


@metric("seconds", "Wall-clock time per round", higher=False, source="timing", defined=WALL)
def seconds_per_round(reading: Reading) -> float:
    """Seconds of a round: training, loading, evaluation of all images (FedSMOO, Table 7; FedLESAM, Table 8)."""
    return reading.timing["seconds_per_round"]


@metric(
    *("seconds", "Wall-clock time to target", "round"), higher=False, source="timing", needs_target=True, defined=WALL
)
def total_seconds(reading: Reading) -> float | None:
    """``seconds_per_round`` times ``rounds_to_target`` (FedSMOO, Table 7: the same product)."""
    rounds = reading.at_crossing("round")
    return None if rounds is None else rounds * reading.timing["seconds_per_round"]


@metric(
    *("seconds", "Computation time to target", "round"),
    higher=False,
    source="timing",
    needs_target=True,
    defined=(
        "Computing time: rounds times the seconds in which the expected number of clients of a round train, one after "
        "another or together as the executor does, without evaluation. The paper's \"computational times of all "
        'clients" are not defined.'
    ),
)
def compute_time_to_target(reading: Reading) -> float | None:
    """Seconds of a round without evaluation times ``rounds_to_target`` (FedLESAM, Tables 5 and 9, in minutes)."""
    rounds = reading.at_crossing("round")
    return None if rounds is None else rounds * reading.timing["training_seconds_per_round"]


@metric("count", "Stored memory", higher=False, source="declared")
def stored_memory(reading: Reading) -> float:
    """Vectors of the model's size that a client holds (FedLESAM, Table 7)."""
    return reading.algorithm.stored_vectors()


@metric("count", "Communication per round", higher=False, source="declared")
def communication_per_round(reading: Reading) -> float:
    """Vectors of the model's size in the larger of an active client's two directions (FedLESAM, Table 7)."""
    return max(reading.algorithm.communication)


@metric("count", "Backpropagation per local step", higher=False, source="declared")
def backpropagation_per_local_step(reading: Reading) -> float:
    """Gradient evaluations of one local step (FedLESAM, Table 7)."""
    return reading.algorithm.gradients_per_step
