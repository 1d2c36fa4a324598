"""The pure core: who holds what (ledger), who fits where (fitting, screen), which card (placement).

Nothing here knows HTTP, gRPC, Kubernetes objects, a clock, randomness or logging. State is a value:
``new = apply(old, event)``; one owner outside swaps it.
"""
