"""The whole suite of tests: its steps, their processes, the long tests, and what a run prints."""
