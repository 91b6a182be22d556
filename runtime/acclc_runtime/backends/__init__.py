"""What runs a call: compiled kernels on the processor or on GPUs, or NumPy."""
