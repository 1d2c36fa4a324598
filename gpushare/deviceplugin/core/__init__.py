"""What the agent decides. Pure: values in, values out; no I/O, no clock and no log."""
