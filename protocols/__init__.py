"""The protocols that come with golfsim, one file or package each: kernels, then Config, then class."""
