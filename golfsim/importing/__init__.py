"""Translate configurations of other simulators into scenarios."""
