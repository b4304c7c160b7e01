"""The protocols that come with golfsim, one file each: kernels, then Config, then class."""
