"""``kubectl gpushare simulate``: replay a workload under each placement policy."""
