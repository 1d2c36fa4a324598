"""The exporter of a node: what its cards, and the containers on them, do.

``snapshot``, ``holdings``, ``usage`` and ``series`` are pure: what was read goes in, series come out.
``sampling`` reads, ``collector`` shows the last snapshot; a scrape touches no driver.
"""
