"""The pure scheduling core: reservations (ledger), feasibility (fitting, filtering), choice (placement).

``advice`` explains decisions to people; no decision depends on it.
No HTTP, gRPC, Kubernetes objects, clock, randomness or logging. State is a value: ``new = apply(old,
event)``; its owner outside this package replaces it.
"""
