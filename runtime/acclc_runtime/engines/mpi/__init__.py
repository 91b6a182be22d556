"""The MPI engine: Programs between the ranks of an MPI job, over shared windows within a host and messages beyond."""
