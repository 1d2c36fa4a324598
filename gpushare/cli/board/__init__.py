"""``kubectl gpushare board``: the page with nodes, GPUs, pods and idle memory, on this machine."""
