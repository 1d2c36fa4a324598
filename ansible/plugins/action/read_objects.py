"""Action plugin: reads objects of the API."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import quote

from ansible.plugins.action import ActionBase

from ansible_collections.gpushare.nodes.plugins.plugin_utils import kube_api

ARGUMENTS: dict[str, Any] = {
    **kube_api.ARGUMENTS,
    "path": {"type": "str", "required": True},
    "name": {"type": "str", "default": ""},
    "field_selector": {"type": "str", "default": ""},
    "managed_fields": {"type": "bool", "default": False},
}


class ActionModule(ActionBase):  # type: ignore[misc]
    """The plugin."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of the task."""
        super().run(tmp, task_vars)
        _, args = self.validate_argument_spec(ARGUMENTS)
        return kube_api.answer(args, partial(_read, args))


def _read(args: dict[str, Any], api: kube_api.Api) -> dict[str, Any]:
    found = _one(args, api) if args["name"] else _all(args, api)
    if not args["managed_fields"]:
        for each in found:
            each["metadata"].pop("managedFields", None)
    return {"changed": False, "resources": found}


def _one(args: dict[str, Any], api: kube_api.Api) -> list[Any]:
    try:
        return [api.request("get", f"{args['path']}/{quote(args['name'], safe='')}")]
    except kube_api.ApiException as error:
        if error.status == kube_api.NOT_FOUND:
            return []
        raise


def _all(args: dict[str, Any], api: kube_api.Api) -> list[Any]:
    selector = args["field_selector"] or None
    found: list[Any] = api.request("get", args["path"], field_selector=selector)["items"]
    return found
