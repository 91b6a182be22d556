"""The types between the passes: one page each, frozen, printable, and with JSON of a stated version."""
