"""Action plugin: edits the static pod of kube-scheduler, as ``gpushare scheduler-manifest`` does."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.gpushare.nodes.plugins.plugin_utils.control_plane import RemoteHost
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.errors import ConfigError
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.kubescheduler import edit, plan
from ansible_collections.gpushare.nodes.plugins.plugin_utils.lazy import to_plain
from ansible_collections.gpushare.nodes.plugins.plugin_utils.scheduler import extender_config, tls_of

ARGUMENTS: dict[str, Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "extender": {"type": "dict", "default": {}},
    "kubernetes_version": {"type": "str", "default": ""},
    "manifest": {"type": "path", "default": plan.MANIFEST},
    "backup": {"type": "path", "default": plan.BACKUP},
    "policy_file": {"type": "path"},
    "probe": {"type": "str", "choices": ["before", "after", "never"], "default": "before"},
    "wait_s": {"type": "int", "default": 120},
    "settle_s": {"type": "int", "default": 5},
    "answer_s": {"type": "int", "default": 30},
    "plan_only": {"type": "bool", "default": False},
}


class ActionModule(ActionBase):  # type: ignore[misc]
    """The plugin."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of the task."""
        super().run(tmp, task_vars)
        args = to_plain(self.validate_argument_spec(ARGUMENTS)[1])
        host = RemoteHost(
            lambda module, given: self._execute_module(
                module_name=module, module_args=given, task_vars=task_vars
            )
        )
        only_shows = bool(self._task.check_mode) or args["plan_only"]
        try:
            return _shown(host, args) if only_shows else _edited(host, args)
        except ConfigError as error:
            return {"failed": True, "msg": str(error), "done": host.done}


def _shown(host: RemoteHost, args: dict[str, Any]) -> dict[str, Any]:
    found = list(plan.changes(host, _plan(host, args)))
    if args["plan_only"]:
        return {"changed": False}
    diff = [
        {"before_header": path, "after_header": path, "before": before, "after": after}
        for path, before, after in found
    ]
    return {"changed": bool(found), "diff": diff}


def _edited(host: RemoteHost, args: dict[str, Any]) -> dict[str, Any]:
    timeouts = edit.EditTimeouts(args["wait_s"], args["settle_s"])
    edit.perform(host, _plan(host, args), _probe(host, args), timeouts)
    return {"changed": host.changed, "done": host.done}


def _plan(host: RemoteHost, args: dict[str, Any]) -> plan.PendingEdit:
    paths = plan.Paths(args["manifest"], args["backup"])
    wanted = None
    if args["state"] == "present":
        wanted = plan.Install(
            extender_config(args["extender"]),
            args["kubernetes_version"],
            "scheduler_extender_kubernetes_version",
            args["policy_file"],
        )
    return plan.plan(host, paths, wanted)


def _probe(host: RemoteHost, args: dict[str, Any]) -> edit.Probe | None:
    if args["state"] == "absent" or args["probe"] == "never":
        return None
    extender = args["extender"]
    timeout_s, tls = int(extender["http_timeout_s"]), tls_of(extender)
    return edit.Probe(
        lambda: host.problem_of(extender["url"], tls, timeout_s),
        0 if args["probe"] == "before" else None,
        args["answer_s"],
    )
