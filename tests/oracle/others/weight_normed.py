"""Weight normalisation: each layer has a direction and a length in place of its weights."""

from torch import nn
from torch.nn.utils.parametrizations import weight_norm


def build(shape, classes):
    size = 8 * (shape[1] // 4) * (shape[2] // 4)
    return nn.Sequential(
        weight_norm(nn.Conv2d(shape[0], 6, 3, padding=1)),
        nn.ReLU(),
        nn.MaxPool2d(2),
        weight_norm(nn.Conv2d(6, 8, 3, padding=1)),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        weight_norm(nn.Linear(size, classes)),
    )
