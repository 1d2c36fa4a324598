"""The programs of a testbed: installed ones, or built from pinned Go modules."""
