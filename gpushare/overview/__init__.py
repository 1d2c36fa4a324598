"""The cluster as people see it: nodes, GPUs, pods, usage, and why a pod waits. For the tools and the board.

What does not belong here: text for a terminal (``gpushare.cli``) or a page (``gpushare.board``).
"""
