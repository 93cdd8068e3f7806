"""A recurrent network that reads an image row by row."""

from torch import nn


class Rows(nn.Module):
    def __init__(self, shape, classes, width=10):
        super().__init__()
        self.gru = nn.GRU(shape[0] * shape[2], width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        states, _ = self.gru(x.transpose(1, 2).flatten(2))
        return self.head(states[:, -1])


def build(shape, classes):
    return Rows(shape, classes)
