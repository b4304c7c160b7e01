"""A convolutional network for images of 28 × 28 pixels, after LeNet-5 (LeCun, Bottou, Bengio & Haffner 1998)."""

import torch
from torch import nn
from torch.nn import functional as F


class LeNet(nn.Module):
    """Two convolutions and three linear layers: 61,706 parameters for ten classes."""

    def __init__(self, classes):
        super().__init__()
        self.first = nn.Conv2d(1, 6, 5, padding=2)
        self.second = nn.Conv2d(6, 16, 5)
        self.linear = nn.Sequential(
            nn.Linear(16 * 5 * 5, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, classes)
        )

    def forward(self, x):
        """Return the scores of records, one row per record; x has one row of 784 pixels per record."""
        x = x.reshape(-1, 1, 28, 28)
        x = F.max_pool2d(torch.relu(self.first(x)), 2)
        x = F.max_pool2d(torch.relu(self.second(x)), 2)
        return self.linear(x.flatten(1))
