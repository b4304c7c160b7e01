"""PyTorch modules that the tests name as learners; torch may be missing, so only tests that need it load this file."""

import numpy as np
import torch
from torch import nn


class Hidden(nn.Module):
    """One hidden layer, like the learner mlp with tanh."""

    def __init__(self, features, classes, hidden=4):
        super().__init__()
        self.first = nn.Linear(features, hidden)
        self.out = nn.Linear(hidden, 1 if classes == 2 else classes)

    def forward(self, x):
        return self.out(torch.tanh(self.first(x)))


class Flat(nn.Linear):
    """Softmax regression."""

    def __init__(self, features, classes):
        super().__init__(features, 1 if classes == 2 else classes)


class Convolved(nn.Module):
    """A convolution over the features, in groups whose statistics are those of one record."""

    def __init__(self, features, classes):
        super().__init__()
        self.filter = nn.Conv1d(1, 4, 3, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.out = nn.Linear(4 * features, classes)
        self.register_buffer("scale", torch.full((1,), 2.0))

    def forward(self, x):
        return self.out(torch.relu(self.norm(self.filter(self.scale * x[:, None]))).flatten(1))


class With(nn.Module):
    """A module with a layer, or a function, that is refused."""

    def __init__(self, features, classes):
        super().__init__()
        self.out = nn.Linear(features, classes)

    def forward(self, x):
        return self.out(x)


class Statistics(With):
    def __init__(self, features, classes):
        super().__init__(features, classes)
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        return self.out(self.norm(x) if len(x) > 1 else x)


class Beside(With):
    def forward(self, x):
        return self.out(x - x.mean(0))


class Dropped(With):
    def __init__(self, features, classes):
        super().__init__(features, classes)
        self.drop = nn.Dropout(0.5)


class Noisy(With):
    def forward(self, x):
        return self.out(x + 1e-6 * torch.rand_like(x))


class Unseeded(With):
    def __init__(self, features, classes):
        super().__init__(features, classes)
        self.out.weight.data[0, 0] = float(np.random.default_rng().random())


class Frozen(With):
    def __init__(self, features, classes):
        super().__init__(features, classes)
        self.out.bias.requires_grad = False


class Double(With):
    def __init__(self, features, classes):
        super().__init__(features, classes)
        self.double()


class Wide(With):
    def forward(self, x):
        return torch.cat([super().forward(x)] * 3, 1)


class Empty(nn.Module):
    def forward(self, x):
        return x


class Branching(With):
    def forward(self, x):
        return self.out(x) if self.out.weight.sum() > 0 else -self.out(x)


class Broken(With):
    def __init__(self, features, classes):
        super().__init__(features, classes)
        raise RuntimeError("no weights today")
