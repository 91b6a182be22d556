"""Pictures of schedules: the interactive page and its data, and traces. Import the module that is needed."""
