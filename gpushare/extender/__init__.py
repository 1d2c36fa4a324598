"""The scheduler extender: filter, prioritize, preempt, bind and inspect over HTTP.

``cluster`` owns the live ledger; only ``binder`` writes pods to the API; ``leadership`` decides which replica
may bind; ``verbs`` and ``codec`` implement the scheduler's JSON.
"""
