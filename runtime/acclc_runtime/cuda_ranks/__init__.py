"""A rank a process on GPUs: one slab of device memory a rank, which its neighbours map by CUDA IPC."""
