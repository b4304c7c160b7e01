"""Basic modules: errors, paths, random numbers, kernels, threads, checked settings."""
