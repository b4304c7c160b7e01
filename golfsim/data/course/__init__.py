"""Generate the log of an online course, and compute features from raw events."""
