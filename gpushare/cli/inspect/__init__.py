"""``kubectl inspect gpushare``: allocated and total GPU memory of nodes."""
