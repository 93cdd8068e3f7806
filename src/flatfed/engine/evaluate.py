"""Loss and accuracy of one model on the sets of images that a protocol asks for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from flatfed.data import augment
from flatfed.data.partition import Partition
from flatfed.engine.layout import Layout
from flatfed.engine.resident import Resident


class Evaluation:
    """Evaluates flat rows of ``model`` in batches of ``batch_size``, without augmentation or dropout.

    ``pause`` is called before every batch, and may raise.

    ``sets``: ``test``; ``train``, the images of all clients one after the other, those given twice counted twice;
    ``clients``, every client by itself: on its own training images and, where the partition has it, on test images
    drawn to its label distribution, or on the validation images that were its own; ``nodes``, where there is no server:
    every node's own model on images of its own (:meth:`nodes`). ``validation``: images held out of the training
    images, in place of the test ones, which are then never looked at. ``unseen`` is the name of the one or the other.
    """

    def __init__(
        self,
        model: nn.Module,
        layout: Layout,
        data: Resident,
        partition: Partition,
        sets: list[str],
        batch_size: int,
        pause: Callable[[], None],
    ):
        self.model, self.layout, self.data, self.batch_size = model, layout, data, batch_size
        self.sets, self.pause = sets, pause
        self.unseen = "validation" if "validation" in sets else "test"
        images = partition.validation if self.unseen == "validation" else partition.test
        self.images = torch.from_numpy(images).to(data.labels.device)
        self.train = torch.from_numpy(partition.indices).to(data.labels.device)
        self.offsets = partition.offsets
        self.own = np.split(np.arange(len(partition.indices)), partition.offsets[1:-1])
        self.drawn = None
        of_clients = partition.client_validation if self.unseen == "validation" else partition.client_test
        if of_clients is not None:
            place = np.full(len(data.labels), -1)
            place[images] = np.arange(len(images))
            self.drawn = [place[positions] for positions in of_clients]

    def __call__(self, row: Tensor) -> dict[str, float]:
        """Return columns of metrics.csv for the flat ``row`` (parameters,): losses in nats, accuracies as fractions.

        ``client_<set>_accuracy`` and ``client_<set>_std`` are mean and population deviation over the clients.
        """
        loss, hits = self.hits(row, self.images)
        columns = {f"{self.unseen}_loss": loss, f"{self.unseen}_accuracy": float(hits.mean())}
        over = {self.unseen: (hits, self.drawn)}
        if "train" in self.sets or "clients" in self.sets:
            loss, hits = self.hits(row, self.train)
            over = {"train": (hits, self.own), **over}
            if "train" in self.sets:
                columns |= {"full_train_loss": loss, "train_accuracy": float(hits.mean())}
        if "clients" in self.sets:
            for name, (hits, parts) in over.items():
                if parts is not None:
                    scores = np.array([hits[part].mean() for part in parts if len(part)])
                    columns |= {
                        f"client_{name}_accuracy": float(scores.mean()),
                        f"client_{name}_std": float(scores.std()),
                    }
        return columns

    def nodes(self, clients: np.ndarray, models: Tensor) -> list[dict[str, float]]:
        """Return accuracies of each of ``models`` (n, parameters) on images of its node in ``clients``, by column.

        They are its training images and, where the partition has them, the test images drawn to its labels.
        """
        accuracies = []
        for node, row in zip(map(int, clients), models, strict=True):
            own = {"train": self.train[self.offsets[node] : self.offsets[node + 1]]}
            if self.drawn is not None and len(self.drawn[node]):
                own[self.unseen] = self.images[torch.from_numpy(self.drawn[node]).to(self.images.device)]
            accuracies.append(
                {f"node_{name}_accuracy": float(self.hits(row, part)[1].mean()) for name, part in own.items()}
            )
        return accuracies

    @torch.no_grad()
    def hits(self, row: Tensor, index: Tensor) -> tuple[float, np.ndarray]:
        """Return (mean cross-entropy, (n,) 1 where the model is right, else 0) on the images ``index`` (n,).

        Sums are kept on the device until the end.
        """
        views = self.layout.views(row)
        loss = torch.zeros((), dtype=torch.float64, device=row.device)
        right = torch.empty(len(index), dtype=torch.bool, device=row.device)
        for part, out in zip(index.split(self.batch_size), right.split(self.batch_size), strict=True):
            self.pause()
            labels = self.data.labels[part]
            images = augment.channels_last(self.data.batch(part))
            output = functional_call(self.model, views, (images,))
            loss += cross_entropy(output, labels, reduction="sum").double()
            out.copy_(output.argmax(dim=1) == labels)
        return float(loss) / len(index), right.cpu().numpy().astype(np.float64)
