"""Action plugin: finds the URL at which a host reaches the extender."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.gpushare.nodes.plugins.plugin_utils.control_plane import RemoteHost
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.errors import ConfigError
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.kubescheduler.config import node_url
from ansible_collections.gpushare.nodes.plugins.plugin_utils.plain import to_plain
from ansible_collections.gpushare.nodes.plugins.plugin_utils.scheduler import tls_of

ARGUMENTS: dict[str, Any] = {
    "urls": {"type": "list", "elements": "str", "default": []},
    "address": {"type": "str", "default": ""},
    "tls": {"type": "dict", "default": {}},
    "timeout_s": {"type": "int", "default": 5},
    "probe": {"type": "str", "choices": ["before", "after", "never"], "default": "before"},
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
        try:
            return _found(host, args, check_mode=bool(self._task.check_mode))
        except ConfigError as error:
            return {"failed": True, "msg": str(error)}


def _found(host: RemoteHost, args: dict[str, Any], *, check_mode: bool) -> dict[str, Any]:
    candidates = args["urls"] or _node_urls(host, args)
    if args["probe"] == "never":
        return {"changed": False, "url": candidates[0]}
    problems = {url: host.problem_of(url, tls_of(args), args["timeout_s"]) for url in candidates}
    seen = "; ".join(problem or f"{url}: answers" for url, problem in problems.items())
    answering = [url for url, problem in problems.items() if not problem]
    # Check mode also works on a cluster without an extender.
    if args["probe"] == "before" and not answering and not check_mode:
        raise ConfigError(
            f"no extender answers at any of scheduler_extender_urls ({seen}), so nothing was changed. Start "
            "the extender first, correct the URLs, or set scheduler_extender_probe to after"
        )
    return {"changed": False, "url": [*answering, *candidates][0], "msg": seen}


def _node_urls(host: RemoteHost, args: dict[str, Any]) -> list[str]:
    """Return the NodePort on loopback, which kube-proxy does not always serve, and on the host's address."""
    own = args["address"] or host.address()
    scheme = "https" if tls_of(args) else "http"
    return [node_url(address, scheme) for address in dict.fromkeys(["127.0.0.1", own or "127.0.0.1"])]
