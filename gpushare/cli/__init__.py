"""The tools: ``gpushare`` and the kubectl plugins. A folder for each command; ``lib`` is what they share.

In a folder, ``command`` has the flags and says what happens, ``collect`` reads the cluster, ``render`` makes
text and documents; the other modules decide, and are pure. Modules are imported when their command runs, so
that ``--help`` answers at once. ``main`` has the table of the commands.
"""
