"""The NCCL engine: Programs between GPUs of one machine or many, by grouped sends and receives of NCCL."""
