"""From a scenario file to checked models: one run, a sweep, or data frames from memory."""
