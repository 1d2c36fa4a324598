"""The board: one page in a browser with nodes, GPUs, pods, pending pods and idle memory.

``gpushare board-server`` serves it in a cluster (``daemon``), ``kubectl gpushare board`` on one machine
(``local``). ``collect`` follows the cluster, ``state`` is what is known of it, and ``render`` makes the
document that the page shows.

What does not belong here: figures that the tools show too (``gpushare.overview``).
"""
