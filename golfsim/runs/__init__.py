"""Runs and sweeps: one process, many workers, a cluster; the store of results."""
