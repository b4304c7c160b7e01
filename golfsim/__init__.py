"""golfsim: a cycle-driven simulator of gossip protocols that learn from data nobody gives away."""

__version__ = "0.1.0"
