"""A generated log of an online course, and the way from raw events to features."""
