"""The machine that acclc runs on: what it is (discover), how fast it is (probe), and whether it works (doctor)."""
