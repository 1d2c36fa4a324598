"""``kubectl gpushare board``: one page in a browser with nodes, GPUs, pods, pending pods and idle memory.

``objects`` reads nodes and pods, ``usage`` the series of the exporters; ``pending``, ``idle`` and ``history``
derive from them, and ``snapshot`` is all that the page shows, as a document. ``routes`` answers requests.
These are pure; ``watching`` follows the cluster, ``server`` listens, ``browser`` opens the page.

What does not belong here: figures that other commands show too (``gpushare.overview.node_view``,
``gpushare.overview.usage``, ``gpushare.cli.explain``).
"""
