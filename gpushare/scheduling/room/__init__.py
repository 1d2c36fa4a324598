"""Making room: which pods to evict, or to move, so that a waiting pod fits on a GPU. Pure.

Two plans: ``evictions`` ends pods of lower priority, ``moves`` ends only pods that fit elsewhere now. What
does not belong here: carrying out a plan, budgets of evictions over time, and any clock.
"""
