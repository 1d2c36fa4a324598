"""The exporter: metrics of a node's GPUs and of the containers on them.

``snapshot``, ``allocations``, ``usage`` and ``series`` are pure: they turn a snapshot into series.
``sampling`` reads the sources, ``exposition`` renders the last snapshot; a scrape calls no driver.
"""
