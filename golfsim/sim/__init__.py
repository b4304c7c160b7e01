"""The simulation: the loop over cycles, the observers, the log, checkpoints."""
