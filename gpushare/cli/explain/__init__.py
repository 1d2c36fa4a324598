"""``kubectl gpushare explain``: why a pod is pending, and what would make it fit.

What does not belong here: the answer, which the board shows too (``gpushare.overview.explain``).
"""
