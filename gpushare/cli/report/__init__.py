"""``kubectl gpushare report``: GPU-hours and GiB-hours of each workload over a time (showback).

``gather`` queries Prometheus, ``accounting`` computes, ``view`` shows the result.
"""
