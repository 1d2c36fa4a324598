"""``kubectl gpushare recommend``: right-sizing of GPU memory requests."""
