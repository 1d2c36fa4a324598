"""The metrics API: what the exporters show, in the words of custom.metrics.k8s.io, so that an HPA reads it.

``offers``, ``paths``, ``values``, ``promql``, ``exposition``, ``documents`` and ``identity`` are pure;
``exporters`` and ``prometheus`` fetch, ``service`` answers, ``daemon`` puts all together.
"""
