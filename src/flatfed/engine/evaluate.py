"""Loss and accuracy of a model on a protocol's image sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from flatfed.algorithms._layout import Layout
from flatfed.data import augment
from flatfed.data.partition import Partition
from flatfed.engine.resident import Resident
from flatfed.engine.weights import pass_images
from flatfed.models import batch_norm


@dataclass
class Score:
    """Evaluates a row on the device in batches of ``batch_size``; ``pause`` is called before each and may raise."""

    model: nn.Module
    layout: Layout
    data: Resident
    batch_size: int
    pause: Callable[[], None]

    @torch.no_grad()
    def __call__(self, row: Tensor, index: Tensor, buffers: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the sum of the cross-entropy, 0-d float64, and whether ``row`` is right on ``index``, (n,).

        ``buffers`` (size,): those of BatchNorm, in place of the model's.
        """
        views = self.layout.views(row)
        if buffers is not None:
            views |= batch_norm.buffer_layout(self.model).views(buffers)
        loss = torch.zeros((), dtype=torch.float64, device=row.device)
        hits = torch.empty(len(index), dtype=torch.bool, device=row.device)
        for part, out in zip(index.split(self.batch_size), hits.split(self.batch_size), strict=True):
            self.pause()
            labels = self.data.labels[part]
            images = augment.channels_last(self.data.batch(part))
            output = pass_images(self.model, views, (images,))
            loss += cross_entropy(output, labels, reduction="sum").double()
            out.copy_(output.argmax(dim=1) == labels)
        return loss, hits


class Evaluation:
    """Evaluates flat rows by ``score``, without augmentation or dropout.

    ``sets``: ``test``; ``train``: all clients' images, with repetitions; ``clients``: each client's training images
    and, if the partition has them, test or validation images; ``nodes``: each node's model (:meth:`nodes`);
    ``validation``: held-out training images instead of the test images. ``unseen``: "test" or "validation".
    """

    def __init__(self, score: Score, partition: Partition, sets: list[str]):
        self.score, self.sets, labels = score, sets, score.data.labels
        self.unseen = "validation" if "validation" in sets else "test"
        validates = self.unseen == "validation"
        images = partition.validation if validates else partition.test
        self.images = torch.from_numpy(images).to(labels.device)
        self.train = torch.from_numpy(partition.indices).to(labels.device)
        self.train_parts = np.split(np.arange(len(partition.indices)), partition.offsets[1:-1])
        self.unseen_parts = None
        client_images = partition.client_validation if validates else partition.client_test
        if client_images is not None:
            positions = np.full(len(labels), -1)
            positions[images] = np.arange(len(images))
            self.unseen_parts = [positions[client] for client in client_images]

    @property
    def columns(self) -> list[str]:
        """The columns of metrics.csv that every run has."""
        names = f"round learning_rate train_loss {self.unseen}_loss {self.unseen}_accuracy clients consistency"
        return [*names.split(), "download_bytes", "upload_bytes", "seconds"]

    def __call__(self, row: Tensor) -> dict[str, float]:
        """Return columns of metrics.csv for ``row`` (parameters,): losses in nats, accuracies as fractions.

        ``client_<set>_accuracy`` and ``client_<set>_std`` are mean and population deviation over the clients.
        """
        loss, hits = self.hits(row, self.images)
        columns = {f"{self.unseen}_loss": loss, f"{self.unseen}_accuracy": float(hits.mean())}
        client_sets = {self.unseen: (hits, self.unseen_parts)}
        if "train" in self.sets or "clients" in self.sets:
            loss, hits = self.hits(row, self.train)
            client_sets = {"train": (hits, self.train_parts), **client_sets}
            if "train" in self.sets:
                columns |= {"full_train_loss": loss, "train_accuracy": float(hits.mean())}
        if "clients" in self.sets:
            for name, (hits, parts) in client_sets.items():
                if parts is not None:
                    scores = np.array([hits[part].mean() for part in parts if len(part)])
                    columns[f"client_{name}_accuracy"] = float(scores.mean())
                    columns[f"client_{name}_std"] = float(scores.std())
        return columns

    def nodes(self, clients: np.ndarray, models: Tensor, buffers: Tensor | None = None) -> list[dict[str, float]]:
        """Return the accuracies of ``models`` (n, parameters) on their nodes' training and unseen images, by column.

        ``buffers`` (n, size): those of the nodes' BatchNorm, or None.
        """
        accuracies, rows_of_buffers = [], [None] * len(models) if buffers is None else buffers
        for node, row, own_buffers in zip(map(int, clients), models, rows_of_buffers, strict=True):
            sets = {"train": self.train[torch.from_numpy(self.train_parts[node]).to(self.train.device)]}
            if self.unseen_parts is not None and len(self.unseen_parts[node]):
                sets[self.unseen] = self.images[torch.from_numpy(self.unseen_parts[node]).to(self.images.device)]
            accuracies.append(
                {
                    f"node_{name}_accuracy": float(self.hits(row, images, own_buffers)[1].mean())
                    for name, images in sets.items()
                }
            )
        return accuracies

    def hits(self, row: Tensor, index: Tensor, buffers: Tensor | None = None) -> tuple[float, np.ndarray]:
        """Return the mean cross-entropy and, for each image of ``index`` (n,), 1 if the model is right, else 0."""
        loss, hits = self.score(row, index, buffers)
        return float(loss) / len(index), hits.cpu().numpy().astype(np.float64)
