"""Callback plugin: loads other plugins once for each ``ansible-playbook``, not once for each task and host.

Ansible forks a process for each task on each host. Without this, most of them load the same filters and tests
and compile the lexer of Jinja again: a third of their CPU time. What does not belong here: anything that
changes what a task does.
"""

from contextlib import suppress
from typing import Any, Final

from ansible.plugins.callback import CallbackBase
from ansible.plugins.loader import connection_loader, filter_loader, test_loader
from ansible.template import Templar

_OURS: Final = "gpushare.nodes.driver_announcement"
"""A search for one filter of the collection loads the files of all of them."""


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """The plugin."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "preloaded"

    def v2_playbook_on_start(self, playbook: Any) -> None:  # noqa: ARG002 - Ansible gives it
        """Load them before the first process is forked."""
        for each in (filter_loader, test_loader):
            list(each.all())
        connection_loader.get("ssh", class_only=True)
        # The run may have no collection.
        with suppress(KeyError):
            filter_loader.get(_OURS)
        # ansible-core 2.16 has no such function.
        with suppress(ImportError):
            from ansible.template import trust_as_template  # noqa: PLC0415 - see above

            Templar(loader=None).template(trust_as_template("{{ 1 }}"))
