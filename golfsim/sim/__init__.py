"""The simulation: the loop over cycles, what is observed, the log, checkpoints."""
