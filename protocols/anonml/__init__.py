"""AnonML (Cyphers 2017): locally private histograms in anonymous packets, and classifiers learned from them."""

from protocols.anonml.protocol import AnonML

__all__ = ["AnonML"]
