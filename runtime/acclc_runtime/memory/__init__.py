"""Ranks that are processes of one machine: they meet, share memory, and run the same kernels as a local group."""
