"""The files of a run, finished or not, and the identity of its inputs."""

from __future__ import annotations

import contextlib
import csv
import datetime
import os
import resource
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from flatfed.data.partition import repetition
from flatfed.engine.callbacks import Callback
from flatfed.engine.simulation import Simulation
from flatfed.errors import DataError
from flatfed.files import remove_parts, write_whole
from flatfed.runs import record as records
from flatfed.runs.record import FILES, LINES_SO_FAR, METRICS, MODEL, RECORD, RECORD_SO_FAR, RunRecord
from flatfed.runs.run_config import RunConfig

FINISHED = ".finished"  # hidden folder of the run's files, of which the ones in the run's folder are hard links
PREVIOUS = ".previous"  # folder of the finished run that a new one replaced
PULSE = 10.0  # seconds from one writing of the lines so far to the next


@dataclass(frozen=True)
class Identity:
    """All inputs of a run: SHA-256 digests and versions of the code.

    ``weights_digest``: of pre-trained weights, if any.
    """

    description_digest: str
    partition_digest: str
    dataset_digest: str
    versions: dict[str, int | str]
    weights_digest: str | None = None


class Outputs(Callback):
    """The files of a run in folder ``out``.

    ``identity``: all inputs of the run; ``images``: their number per part; ``lines`` of metrics.csv; ``sessions`` of
    training, ``diverged_at`` and ``probes``, as in run.json.
    """

    def __init__(self, out: Path, identity: Identity, images: dict[str, int]):
        self.out, self.identity, self.images = out, identity, images
        self.lines: list[dict[str, float]] = []
        self.sessions: list[dict[str, Any]] = []
        self.probes: list[dict[str, Any]] = []
        self.diverged_at: int | None = None
        self.written = time.monotonic()

    def after_round(self, simulation: Simulation, line: dict[str, float] | None) -> None:
        """Add ``line``; write the lines so far every ``PULSE`` seconds."""
        if line is not None:
            self.lines.append(line)
        if simulation.round < simulation.config.rounds and time.monotonic() - self.written >= PULSE:
            self.write_so_far(simulation)

    def state(self) -> dict[str, Any]:
        return {"lines": self.lines, "sessions": self.sessions, "diverged_at": self.diverged_at}

    def finish(self, simulation: Simulation) -> None:
        """Write metrics.csv, model.safetensors and, last, run.json; keep a replaced run in ``.previous``."""
        for name in (LINES_SO_FAR, RECORD_SO_FAR):
            remove_parts(self.out / name)
        staged = self.staged
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir(parents=True)
        self._write_lines(staged / METRICS, simulation)
        models = simulation.algorithm.evaluated(simulation.server)
        shown, *further = models
        weights = simulation.weights.tensors(models[shown][0])
        with write_whole(staged / MODEL) as file:
            # Copies: safetensors refuses tied tensors.
            copies = {name: value.cpu().clone(memory_format=torch.contiguous_format) for name, value in weights.items()}
            file.write(save(copies))
        also = {} if self.diverged_at else {name: simulation.evaluate(models[name][0]) for name in further}
        record = self._record(simulation).model_copy(update={"also": also, "finished": now("microseconds")})
        records.write(staged / RECORD, record, (staged / METRICS, staged / MODEL))
        self._keep_previous()
        staged.rename(self.finished)
        self.link()
        self.forget_so_far()

    def write_so_far(self, simulation: Simulation) -> None:
        """Write the lines and the record so far; after a crash the run may repeat some of these rounds."""
        self._write_lines(self.out / LINES_SO_FAR, simulation)
        record = self._record(simulation).model_copy(update={"written": now()})
        records.write(self.out / RECORD_SO_FAR, record, (self.out / LINES_SO_FAR,))
        self.written = time.monotonic()

    def forget_so_far(self) -> None:
        for name in (RECORD_SO_FAR, LINES_SO_FAR):
            (self.out / name).unlink(missing_ok=True)

    def restore(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def finished_record(self, config: RunConfig, since: float) -> RunRecord | None:
        """Return the record of the finished run with this identity and deciding settings, if it ended ``since`` a time.

        Snakemake deletes outputs before a job, but not :attr:`finished`. The replaced run serves after an undone edit.
        """
        if self.aside.exists():  # a killed exchange
            self.aside.rename(self.out / PREVIOUS if self.finished.exists() else self.finished)
        for folder in (self.finished, self.out / PREVIOUS):
            record = self._complete(folder)
            if record is None or record.finished is None or self._differences(record) - {"description_digest"}:
                continue
            recent = datetime.datetime.fromisoformat(record.finished).timestamp() > since
            if recent and not record.config.deciding_differences(config):
                if folder != self.finished:
                    if self.finished.exists():
                        self.finished.rename(self.aside)
                    folder.rename(self.finished)
                    if self.aside.exists():
                        self.aside.rename(folder)
                return record
        return None

    def link(self) -> None:
        """Link the files of the finished run to their places in ``out``, with the present time, the record last."""
        for name in FILES:
            part = self.out / f".{name}.link"
            part.unlink(missing_ok=True)
            try:
                os.link(self.finished / name, part)
            except OSError:  # the file system has no links
                shutil.copy2(self.finished / name, part)
            os.utime(part)
            part.replace(self.out / name)
            part.unlink(missing_ok=True)  # rename leaves two links of one file as they are

    @property
    def finished(self) -> Path:
        """The hidden folder of the finished run."""
        return self.out / FINISHED

    @property
    def aside(self) -> Path:
        """The folder of :attr:`finished` while it changes places with the replaced run."""
        return self.out / f"{FINISHED}.aside"

    @property
    def staged(self) -> Path:
        """The folder that becomes :attr:`finished` when it is complete."""
        return self.out / f"{FINISHED}.part"

    def _complete(self, folder: Path) -> RunRecord | None:
        """Return the record of the finished run in ``folder``, None if there is none or a file is damaged."""
        with contextlib.suppress(OSError, DataError):
            record = records.read(folder / RECORD)
            record.check_files(folder, METRICS, MODEL)
            return record
        return None

    def _differences(self, record: RunRecord) -> set[str]:
        return {name for name, value in vars(self.identity).items() if getattr(record, name) != value}

    def _keep_previous(self) -> None:
        """Move the finished run to ``.previous``; remove it if it is this run, which a killed process finished.

        With the same identity and first session it is this run, which did not remove its checkpoint yet.
        """
        record = self._complete(self.finished)
        if record and not self._differences(record) and record.sessions[:1] == self.sessions[:1]:
            shutil.rmtree(self.finished)
        elif self.finished.exists():
            shutil.rmtree(self.out / PREVIOUS, ignore_errors=True)
            self.finished.rename(self.out / PREVIOUS)

    def _write_lines(self, path: Path, simulation: Simulation) -> None:
        with write_whole(path, "w") as file:
            # A line lacks the nodes' columns if no node of the round has images for them.
            names = list(dict.fromkeys(name for line in self.lines for name in line))
            names = names or simulation.evaluate.columns
            writer = csv.DictWriter(file, fieldnames=names, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.lines)

    def _record(self, simulation: Simulation) -> RunRecord:
        config, device, seconds = simulation.config, simulation.device, simulation.clock.seconds
        counts, topology = simulation.cost.counts, simulation.topology
        session = {key: value for key, value in self.sessions[-1].items() if key not in ("from_round", "began")}
        return RunRecord(
            config=config,
            **vars(self.identity),
            images=self.images,
            repetition=repetition(simulation.members),
            rounds_done=self.lines[-1]["round"] if self.lines else 0,
            diverged_at=self.diverged_at,
            probes=self.probes,
            executor=simulation.executor.name,
            rows=config.rows,
            row=simulation.layout.size,
            precision=config.precision,
            parameters=simulation.weights.parameters,
            local_steps=counts["local_steps"],
            gradient_evaluations=counts["gradient_evaluations"],
            stored_vectors=simulation.algorithm.stored_vectors(),
            spectral_gap=topology.spectral_gap if topology else None,
            seconds=round(sum(seconds.values()), 3),
            **{f"seconds_{activity}": round(value, 3) for activity, value in seconds.items()},
            peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            peak_device_memory_bytes=torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None,
            client_state=simulation.state.home,
            **session,
            sessions=self.sessions,
        )


def now(timespec: str = "seconds") -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec=timespec)
