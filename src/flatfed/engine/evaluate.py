"""Loss and accuracy of one model on a set of images."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from flatfed.engine.layout import Layout
from flatfed.engine.local import Resident


@torch.no_grad()
def evaluate(
    model: nn.Module, layout: Layout, row: Tensor, data: Resident, index: Tensor, batch_size: int
) -> tuple[float, float]:
    """Return (mean cross-entropy in nats, accuracy as a fraction) of the flat ``row`` on images ``index`` (n,).

    No augmentation, no dropout. Images given twice count twice. Sums are kept on the device until the end.
    """
    views = layout.views(row)
    loss = torch.zeros((), dtype=torch.float64, device=row.device)
    correct = torch.zeros((), dtype=torch.int64, device=row.device)
    for part in index.split(batch_size):
        labels = data.labels[part]
        images = data.batch(part).contiguous(memory_format=torch.channels_last)
        output = functional_call(model, views, (images,))
        loss += cross_entropy(output, labels, reduction="sum").double()
        correct += (output.argmax(dim=1) == labels).sum()
    return float(loss) / len(index), int(correct) / len(index)
