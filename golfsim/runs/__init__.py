"""Runs and sweeps, in one process, in several workers or on a cluster; and the store of results."""
