"""The command line: ``gpushare`` and the kubectl plugins.

``cluster``, ``exporters`` and ``limits_query`` read the API server; ``view``, ``document``, ``limits_view``,
``usage_tables``, ``tables`` and the ``layouts`` are pure: data in, text out. ``display`` connects both to the
flags of ``commands``. A command with its own package, such as ``doctor``, has its flags in the module
``command`` there. ``scheduler_*`` and ``installer_turns`` configure kube-scheduler. Modules are imported when
their command runs, so that ``--help`` answers at once.
"""
