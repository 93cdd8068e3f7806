"""The network of torch's classifier tutorial on small images: convolutions, `view`, dense layers.

The last convolution has images of 2 x 2 pixels: a border of its kernel never meets one.
"""

import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        channels, height, width = shape
        self.size = 8 * (height // 4) * (width // 4)
        self.conv1 = nn.Conv2d(channels, 4, 5, padding=2)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(4, 6, 5, padding=2)
        self.conv3 = nn.Conv2d(6, 8, 5, padding=2)
        self.fc1 = nn.Linear(self.size, 16)
        self.fc2 = nn.Linear(16, classes)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = F.relu(self.conv3(x))
        x = x.view(-1, self.size)
        return self.fc2(F.relu(self.fc1(x)))


def build(shape, classes):
    return Net(shape, classes)
