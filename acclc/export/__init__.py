"""Schedules in the formats of other engines: one folder a format. Each lowers a Schedule for itself."""
