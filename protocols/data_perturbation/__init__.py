"""Each node publishes a noisy version of its records once; other layers learn from it."""

from protocols.data_perturbation.protocol import DataPerturbation

__all__ = ["DataPerturbation"]
