"""The compared codes of benchmarks/rounds.py: federated training in plain PyTorch.

They train an ``nn.Module`` for one client after another. ``loader`` reads a ``DataLoader``, which augments image by
image, as the papers' official code. ``resident`` indexes tensors on the device and augments whole batches. ``autocast``
is ``resident`` under ``torch.autocast`` to bfloat16.

Arithmetic is multi-tensor (``torch._foreach_*``), client state is on the device, and no step waits for the device. With
the same batches, FlatFed gives the same numbers (tests/oracle/test_yardsticks.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad
from torch.nn.utils import clip_grad_norm_, parameters_to_vector, vector_to_parameters
from torch.utils.data import DataLoader, Dataset

from flatfed import models
from flatfed.data.streams import torch_seed
from flatfed.engine.precision import STATE_DTYPES
from flatfed.runs.run_config import RunConfig

KINDS = ("loader", "resident")
AUTOCAST = "autocast"
PADDING = 4
EPSILON = 1e-7  # added to a norm before it divides

#: (client, round from 0) -> image positions of its batches.
Order = Callable[[int, int], Sequence[Tensor]]


class AugmentedImages(Dataset):
    """Normalised and augmented images (C, H, W), with their labels."""

    def __init__(self, images: Tensor, labels: Tensor, mean: Tensor, std: Tensor, dtype: torch.dtype, augmented: bool):
        self.images, self.labels = images, labels.tolist()
        self.mean, self.std = mean[:, None, None], std[:, None, None]
        self.dtype, self.augmented = dtype, augmented

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, position: int) -> tuple[Tensor, int]:
        image = self.images[position].to(self.dtype).div_(255).sub_(self.mean).div_(self.std)
        if self.augmented:
            flip, crop = torch.rand(2).tolist()
            if flip < 0.5:
                image = image.flip(-1)
            if crop < 0.5:
                top, left = torch.randint(2 * PADDING + 1, (2,)).tolist()
                height, width = image.shape[-2:]
                image = pad(image, (PADDING,) * 4)[:, top : top + height, left : left + width]
        return image, self.labels[position]


class Yardstick:
    """FedAvg, the base of the others. ``w`` (parameters,): the server's model; ``round``: finished rounds.

    ``members``: the clients' image positions; ``order``: their batches, by default permutations.
    """

    proximal = 0.0

    def __init__(
        self,
        kind: str,
        config: RunConfig,
        images: Tensor,
        labels: Tensor,
        members: Sequence[Any],
        device: torch.device,
        *,
        order: Order | None = None,
    ):
        self.kind, self.config, self.device = kind, config, device
        self.params = config.update.params
        self.members = [torch.as_tensor(positions) for positions in members]
        self.order = order or self._shuffled
        self.dtype = STATE_DTYPES[config.precision]
        data, spec = config.dataset, config.model
        self.augmented = config.augmentation != "none"
        self.mean, self.std = (torch.tensor(numbers, dtype=self.dtype) for numbers in (data.mean, data.std))
        if kind == "loader":
            self.images = AugmentedImages(images, labels, self.mean, self.std, self.dtype, self.augmented)
        else:
            self.images, self.labels = images.to(device), labels.to(device)
            self.mean, self.std = self.mean.to(device)[:, None, None], self.std.to(device)[:, None, None]
        self.model = models.build(spec.name, tuple(data.shape), data.classes, spec.options)
        generator = torch.Generator().manual_seed(torch_seed(config.seed, "weights"))
        self.w = models.initial_weights(self.model, generator).to(device, self.dtype)
        self.model.to(device, self.dtype)
        self.weights = list(self.model.parameters())
        self.round = 0
        self.lr = config.learning_rate
        self.vectors: dict[str, Tensor] = {}  # the server's, except w
        self.state: dict[str, dict[int, Tensor]] = {}  # the clients', initially zero

    def advance(self, clients: Sequence[int]) -> None:
        """Train one round of ``clients``."""
        self.lr = self.config.learning_rate * self.config.learning_rate_decay**self.round
        self.aggregate([self.train(client) for client in clients])
        self.round += 1

    def train(self, client: int) -> Tensor:
        """Return the local model (parameters,) of ``client``."""
        vector_to_parameters(self.w.clone(), self.weights)
        decay = self.config.weight_decay + self.proximal
        optimiser = torch.optim.SGD(self.weights, lr=self.lr, weight_decay=decay)
        self.start(client)
        steps = 0
        for images, labels in self.feed(client):
            self.gradients(images, labels)
            clip_grad_norm_(self.weights, self.config.clip_norm)
            optimiser.step()
            steps += 1
        local = parameters_to_vector(self.weights).detach()
        self.finish(client, local, steps)
        return local

    def backward(self, images: Tensor, labels: Tensor, masks: list[Tensor] | None) -> list[Tensor]:
        """Set and return the gradients of the mean loss."""
        self.model.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.kind == AUTOCAST):
            output = self.model(images, masks)
        cross_entropy(output.to(self.dtype), labels).backward()
        return [weight.grad for weight in self.weights]

    def gradients(self, images: Tensor, labels: Tensor) -> None:
        """Set the gradients of the module to the direction of the step."""
        self.backward(images, labels, self.masks(len(labels)))

    def masks(self, size: int) -> list[Tensor] | None:
        """Return the dropout masks of a step."""
        sites = self.model.dropout
        drawn = [torch.empty(size, *shape, device=self.device, dtype=self.dtype) for shape, _ in sites]
        return [mask.bernoulli_(1 - rate).div_(1 - rate) for mask, (_, rate) in zip(drawn, sites, strict=True)] or None

    def start(self, client: int) -> None:
        """Prepare a round of ``client``."""

    def finish(self, client: int, local: Tensor, steps: int) -> None:
        """Update the state of ``client`` with its final model ``local`` (parameters,)."""

    def aggregate(self, uploads: list[Tensor]) -> None:
        """Set the server's model from the local ones."""
        self.w = torch.stack(uploads).mean(dim=0)

    def client_vector(self, name: str, client: int) -> Tensor:
        """Return the state vector ``name`` (parameters,) of ``client``."""
        vectors = self.state.setdefault(name, {})
        if client not in vectors:
            vectors[client] = torch.zeros_like(self.w)
        return vectors[client]

    def split(self, vector: Tensor) -> list[Tensor]:
        """Return ``vector`` (parameters,) as views with the weights' shapes."""
        parts = vector.split([weight.numel() for weight in self.weights])
        return [part.view_as(weight) for part, weight in zip(parts, self.weights, strict=True)]

    def _shuffled(self, client: int, round_: int) -> list[Tensor]:
        positions = self.members[client]
        epochs = (positions[torch.randperm(len(positions))] for _ in range(self.config.local_epochs))
        return [batch for epoch in epochs for batch in epoch.split(self.config.batch_size)]

    def feed(self, client: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the client's batches (B, C, H, W), (B,) on the device."""
        batches = self.order(client, self.round)
        if self.kind == "loader":
            loader = DataLoader(
                self.images,
                batch_sampler=[batch.tolist() for batch in batches],
                pin_memory=self.device.type == "cuda",
            )
            for images, labels in loader:
                yield images.to(self.device, non_blocking=True), labels.to(self.device, non_blocking=True)
            return
        for index in torch.cat(list(batches)).to(self.device).split([len(batch) for batch in batches]):
            images = self.images[index].to(self.dtype).div_(255).sub_(self.mean).div_(self.std)
            yield self.flip_and_crop(images) if self.augmented else images, self.labels[index]

    def flip_and_crop(self, images: Tensor) -> Tensor:
        """Return ``images`` (B, C, H, W), each flipped and cropped with probabilities 1/2."""
        count, channels, height, width = images.shape
        flip, crop = (torch.rand(2, count, device=self.device) < 0.5).unbind()
        offsets = torch.randint(2 * PADDING + 1, (2, count), device=self.device)
        top, left = torch.where(crop, offsets, PADDING).unbind()
        rows = top[:, None] + torch.arange(height, device=self.device)
        columns = torch.arange(width, device=self.device).expand(count, width)
        columns = left[:, None] + columns
        columns = torch.where(flip[:, None], width + 2 * PADDING - 1 - columns, columns)
        padded = pad(images, (PADDING,) * 4)
        image = torch.arange(count, device=self.device)[:, None, None, None]
        channel = torch.arange(channels, device=self.device)[:, None, None]
        return padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]]


class FedSAM(Yardstick):
    """FedAvg on SAM's gradient."""

    def direction(self, gradients: list[Tensor]) -> list[Tensor]:
        """Return the direction of the perturbation."""
        return gradients

    def after_step(self, perturbation: list[Tensor]) -> None:
        """Use the step's perturbation."""

    @torch.no_grad()
    def gradients(self, images: Tensor, labels: Tensor) -> None:
        masks = self.masks(len(labels))
        with torch.enable_grad():
            along = self.direction(self.backward(images, labels, masks))
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(along)))
        perturbation = torch._foreach_mul(along, self.params["rho"] / (norm + EPSILON))
        torch._foreach_add_(self.weights, perturbation)
        with torch.enable_grad():
            self.backward(images, labels, masks)
        torch._foreach_sub_(self.weights, perturbation)
        self.after_step(perturbation)


class Scaffold(Yardstick):
    """Control variates: the server's c, the clients' c_i."""

    def start(self, client: int) -> None:
        self.c = self.vectors.setdefault("c", torch.zeros_like(self.w))
        self.correction = self.split(self.c - self.client_vector("c", client))
        self.change = self.vectors.setdefault("change", torch.zeros_like(self.w))

    def gradients(self, images: Tensor, labels: Tensor) -> None:
        super().gradients(images, labels)
        torch._foreach_add_([weight.grad for weight in self.weights], self.correction)

    def finish(self, client: int, local: Tensor, steps: int) -> None:
        delta = (self.w - local).div_(steps * self.lr).sub_(self.c)
        self.client_vector("c", client).add_(delta)
        self.change.add_(delta)

    def aggregate(self, uploads: list[Tensor]) -> None:
        super().aggregate(uploads)
        self.c.add_(self.change, alpha=1 / len(self.members))
        self.change.zero_()


class FedSMOO(FedSAM):
    """Duals for the weights (h_i) and for the perturbation (mu_i, s)."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self.proximal = self.params["penalty"]
        self.vectors = {name: torch.zeros_like(self.w) for name in ("h", "s", "mu")}
        self.s = self.split(self.vectors["s"])

    def start(self, client: int) -> None:
        self.mu = self.split(self.client_vector("mu", client))
        self.dual = self.split((self.client_vector("h", client) - self.w).mul_(self.proximal))

    def direction(self, gradients: list[Tensor]) -> list[Tensor]:
        direction = torch._foreach_sub(gradients, self.mu)
        torch._foreach_sub_(direction, self.s)
        return direction

    def after_step(self, perturbation: list[Tensor]) -> None:
        torch._foreach_add_(self.mu, perturbation)
        torch._foreach_sub_(self.mu, self.s)
        torch._foreach_add_([weight.grad for weight in self.weights], self.dual)

    def finish(self, client: int, local: Tensor, steps: int) -> None:
        self.client_vector("h", client).add_(local).sub_(self.w)
        self.vectors["mu"].add_(self.client_vector("mu", client))

    def aggregate(self, uploads: list[Tensor]) -> None:
        mean = torch.stack(uploads).mean(dim=0)
        self.vectors["h"].add_(mean - self.w, alpha=len(uploads) / len(self.members))
        self.w = mean.add_(self.vectors["h"])
        mu = self.vectors["mu"].div_(len(uploads))
        self.vectors["s"].copy_(mu).mul_(self.params["rho"] / (mu.norm() + EPSILON))
        mu.zero_()


YARDSTICKS: dict[str, type[Yardstick]] = {
    "fedavg": Yardstick,
    "fedsam": FedSAM,
    "scaffold": Scaffold,
    "fedsmoo": FedSMOO,
}
