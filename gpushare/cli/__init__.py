"""The command line: ``gpushare`` and the kubectl plugins.

``view``, ``document``, ``limits_view``, ``usage_tables`` and the ``layouts`` are pure: data in, text out.
``cluster`` and ``exporters`` read the API server, ``display`` connects both to the flags of ``commands``.
Modules are imported when their command runs, so that ``--help`` answers at once.
"""
