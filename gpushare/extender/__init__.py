"""The scheduler extender: filter, prioritize, preempt, bind and inspect over HTTP.

``cluster`` owns the live ledger; ``binder`` is the only place that writes to the API on a pod's
behalf; ``leadership`` says who may bind; ``verbs`` and ``codec`` speak the scheduler's JSON.
"""
