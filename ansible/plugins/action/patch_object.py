"""Action plugin: changes fields of an object of the API."""

from __future__ import annotations

from functools import partial
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.gpushare.nodes.plugins.plugin_utils import kube_api

ARGUMENTS: dict[str, Any] = {
    **kube_api.ARGUMENTS,
    "path": {"type": "str", "required": True},
    "patch": {"type": "dict", "required": True},
}
_MERGE = "application/merge-patch+json"


class ActionModule(ActionBase):  # type: ignore[misc]
    """The plugin."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of the task."""
        super().run(tmp, task_vars)
        _, args = self.validate_argument_spec(ARGUMENTS)
        return kube_api.answer(args, partial(_patch, args, dry_run=self._task.check_mode))


def _patch(args: dict[str, Any], api: kube_api.Api, *, dry_run: bool) -> dict[str, Any]:
    path, patch = args["path"], args["patch"]
    # In the path: libraries before 18.20 ignore the option for it, and would change the object.
    target = f"{path}?dryRun=All" if dry_run else path
    before = part_of(api.request("get", path), patch)
    after = part_of(api.request("patch", target, body=patch, content_type=_MERGE), patch)
    return {"changed": before != after, "diff": {"before": before, "after": after}}


def part_of(document: Any, patch: Any) -> Any:
    """Return the fields of the document that the patch names, None for each that is absent."""
    if not isinstance(patch, dict):
        return document
    fields = document if isinstance(document, dict) else {}
    return {key: part_of(fields.get(key), value) for key, value in patch.items()}
