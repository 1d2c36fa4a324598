"""``kubectl gpushare explain``: why a pod is pending, and what would make it fit.

``objects`` are the parts of API objects that are read here, ``facts`` reads them, ``answer`` decides and
``view`` writes the text. What does not belong here: where a pod fits (``gpushare.scheduling``).
"""
