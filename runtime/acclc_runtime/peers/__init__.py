"""Other libraries, timed at the same collectives, where they are installed."""
