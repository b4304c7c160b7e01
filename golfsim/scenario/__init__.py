"""Turn scenario files into checked models: single runs, sweeps, and data passed in memory."""
