"""Costs: rounds, communication and seconds to a target, and declared costs."""

from __future__ import annotations

from flatfed.plan.quantity import Reading, metric

#: Bytes of one transmitted parameter (float32).
PARAMETER = 4


@metric("rounds", "Rounds to target", "round", higher=False, needs_target=True)
def rounds_to_target(reading: Reading) -> float | None:
    """Rounds to target (FedSMOO, Table 6).

    Once reached, a target stays reached, as in the papers (FedSAM, Table 1, FedRobust).
    """
    return reading.at_crossing("round")


TRAFFIC = ("download_bytes", "upload_bytes")


@metric(
    "parameters", "Communication cost to target, as the papers count it", *TRAFFIC,
    higher=False, needs_target=True, declares=True,
    defined=(
        "Communication is counted as the papers do: twice the larger of an active client's two directions. FedCM and "
        "MoFedSAM, with two vectors down and one up, count as two each way. The metrics download_to_target and "
        "upload_to_target count the bytes sent."
    ),
)
def communication_cost(reading: Reading) -> float | None:
    """Parameters until the target, counted as the papers do: twice the larger of the two directions.

    FedSMOO, Table 3: rounds times 1 or 2. FedLESAM, Tables 5 and 9: FedAvg's 156 GB at 723 rounds are its model, down
    and up, for ten clients (to 4 %, unexplained); FedLESAM-D counts 2, as in Table 7 (``Algorithm.counted``).
    """
    traffic = reading.at_crossing("download_bytes"), reading.at_crossing("upload_bytes")
    if None in traffic:
        return None
    sent = max(reading.algorithm.communication)
    return 2 * max(traffic) / PARAMETER * (reading.algorithm.counted or sent) / sent


@metric("bytes", "Bytes sent to clients until target", *TRAFFIC, higher=False, needs_target=True)
def download_to_target(reading: Reading) -> float | None:
    """Bytes that the active clients receive until the target."""
    return reading.at_crossing("download_bytes")


@metric("bytes", "Bytes sent by clients until target", *TRAFFIC, higher=False, needs_target=True)
def upload_to_target(reading: Reading) -> float | None:
    """Bytes that the active clients send until the target."""
    return reading.at_crossing("upload_bytes")


#: FedLESAM, Table 8: "including training, loading and evaluation".
WALL = (
    "Seconds of a round: training and loading of the expected number of clients, and an evaluation of all training and "
    "all test images after it, as the official code's clock runs."
)


@metric("seconds", "Wall-clock time per round", higher=False, source="timing", defined=WALL)
def seconds_per_round(reading: Reading) -> float:
    """Seconds of a round (FedSMOO, Table 7; FedLESAM, Table 8)."""
    return reading.timing["seconds_per_round"]


@metric(
    *("seconds", "Wall-clock time to target", "round"), higher=False, source="timing", needs_target=True, defined=WALL
)
def total_seconds(reading: Reading) -> float | None:
    """``seconds_per_round`` times ``rounds_to_target`` (FedSMOO, Table 7)."""
    rounds = reading.at_crossing("round")
    return None if rounds is None else rounds * reading.timing["seconds_per_round"]


@metric(
    "seconds", "Computation time to target", "round", higher=False, source="timing", needs_target=True,
    defined=(
        "Computing time: rounds times the seconds in which the expected number of clients of a round train, one after "
        "another or together as the executor does, without evaluation. The paper's \"computational times of all "
        'clients" are not defined.'
    ),
)
def compute_time_to_target(reading: Reading) -> float | None:
    """Seconds of a round without evaluation times ``rounds_to_target`` (FedLESAM, Tables 5 and 9)."""
    rounds = reading.at_crossing("round")
    return None if rounds is None else rounds * reading.timing["training_seconds_per_round"]


@metric("count", "Stored memory", higher=False, source="declared")
def stored_memory(reading: Reading) -> float:
    """Vectors of the model's size that a client holds (FedLESAM, Table 7)."""
    return reading.algorithm.stored_vectors()


@metric("count", "Communication per round", higher=False, source="declared")
def communication_per_round(reading: Reading) -> float:
    """Vectors of the model's size in an active client's larger direction (FedLESAM, Table 7)."""
    return max(reading.algorithm.communication)


@metric("count", "Backpropagation per local step", higher=False, source="declared")
def backpropagation_per_local_step(reading: Reading) -> float:
    """Gradient evaluations of one local step (FedLESAM, Table 7)."""
    return reading.algorithm.gradients_per_step
