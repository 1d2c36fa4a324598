"""``kubectl gpushare report``: GPU-hours and GiB-hours of each workload over a time (showback)."""
