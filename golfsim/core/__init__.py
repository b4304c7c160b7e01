"""What everything rests on: errors, paths, random numbers, kernels, threads, checked settings."""
