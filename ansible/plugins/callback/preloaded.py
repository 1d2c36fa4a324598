"""Callback plugin: loads other plugins once for each run, not once for each task and host.

What does not belong here: anything that changes what a task does.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from ansible.plugins.callback import CallbackBase
from ansible.plugins.loader import connection_loader, filter_loader, test_loader
from ansible.template import Templar

DOCUMENTATION = r"""
name: preloaded
type: aggregate
short_description: Load plugins before processes are forked
description:
  - Ansible forks a process for each task on each host. Without this plugin, most of them load the same
    filters and tests and compile the lexer of Jinja again, which takes 40 % of their processor time.
  - Prints nothing, and changes no result.
requirements:
  - C(callbacks_enabled = gpushare.nodes.preloaded) in C(ansible.cfg)
author:
  - The gpushare authors
"""

_OURS: Final = "gpushare.nodes.driver_announcement"
"""A search for one filter of the collection loads the files of all of them."""


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """The plugin."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpushare.nodes.preloaded"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook: Any) -> None:  # noqa: ARG002 - Ansible gives it
        """Load them before the first process is forked."""
        for each in (filter_loader, test_loader):
            list(each.all())
        connection_loader.get("ssh", class_only=True)
        filter_loader.get(_OURS)
        # ansible-core 2.16 has no such function.
        with suppress(ImportError):
            from ansible.template import trust_as_template  # noqa: PLC0415 - see above

            Templar(loader=None).template(trust_as_template("{{ 1 }}"))
