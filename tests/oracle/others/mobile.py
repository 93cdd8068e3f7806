"""MobileNetV2 with GroupNorm: inverted residuals of pointwise, depthwise and pointwise convolutions."""

from torch import nn


def block(inputs, outputs, kernel, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.GroupNorm(2, outputs),
        nn.ReLU6(inplace=True),
    )


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expansion=3):
        super().__init__()
        hidden = inputs * expansion
        self.residual = stride == 1 and inputs == outputs
        self.layers = nn.Sequential(
            block(inputs, hidden, 1),
            block(hidden, hidden, 3, stride, groups=hidden),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.GroupNorm(2, outputs),
        )

    def forward(self, x):
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNet(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        settings = [(4, 8, 2), (8, 8, 1), (8, 12, 2), (12, 12, 1)]
        self.features = nn.Sequential(
            block(shape[0], 4, 3, 2), *(InvertedResidual(*setting) for setting in settings), block(12, 16, 1)
        )
        self.classifier = nn.Linear(16, classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out")

    def forward(self, x):
        return self.classifier(self.features(x).mean([2, 3]))


def build(shape, classes):
    return MobileNet(shape, classes)
