"""The command line: ``gpushare`` and the kubectl plugins.

``tabwriter``, ``view``, the ``*_layout`` modules and ``document`` are pure: data in, text out.
``cluster`` reads the API server; the modules named after commands bind flags to the two. Modules
are imported when their command runs, so that ``--help`` answers at once.
"""
