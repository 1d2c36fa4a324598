"""The metrics API: serves the exporters' metrics as custom.metrics.k8s.io to HPAs.

``queries``, ``paths``, ``values``, ``promql``, ``documents`` and ``identity`` are pure; ``sources`` fetches
values, ``service`` handles requests, ``daemon`` wires all parts.
"""
