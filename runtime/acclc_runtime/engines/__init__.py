"""Engines that people already run, with acclc's schedules in them. Each is imported by name, with what it needs."""
