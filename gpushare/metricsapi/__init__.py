"""The metrics API: serves the exporters' metrics as custom.metrics.k8s.io to HPAs.

``queries``, ``paths``, ``values``, ``documents`` and ``identity`` are pure; ``exporters`` fetches values,
``service`` handles requests, ``daemon`` wires all parts.
"""
