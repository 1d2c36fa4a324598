"""The Helm chart, made from the builders of ``components.manifests``.

The builders run once for each combination of the values that change the shape of objects
(``release.chart.values``). What the results have in common is written once, and what differs is written with
the condition under which it holds (``release.chart.merge``), as templates (``release.chart.template``). So
the chart has no separate manifests that could differ from what Pulumi and ``components.render`` deploy.
"""
