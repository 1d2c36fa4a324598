"""The programs that a bed runs: found, or built from pinned sources."""
