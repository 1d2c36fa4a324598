"""Filters over the text of configuration files; see ``plugin_utils`` config_text and containerd."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

try:
    # Before 2.19, Ansible parses text that starts like JSON, unless it has this type.
    from ansible.utils.native_jinja import NativeJinjaText as Text
except ImportError:
    Text = str

try:
    from ansible_collections.gpushare.nodes.plugins.plugin_utils import config_text, containerd
except ImportError as error:
    MISSING: ImportError | None = error
else:
    MISSING = None


def _with_message(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` with errors that fail the task with a message instead of a traceback."""

    @functools.wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        if MISSING:
            raise AnsibleFilterError(
                f"{sys.executable} on the controller lacks a library ({MISSING}): pip install tomlkit pyyaml"
            )
        try:
            return function(*arguments, **options)
        except config_text.ConfigTextError as problem:
            raise AnsibleFilterError(str(problem)) from problem

    return run


@_with_message
def parse_config(text: str, kind: str, path: str) -> dict[str, Any]:
    """Return the settings in ``text`` (json, toml or yaml)."""
    return config_text.parse(text, kind, path)


@_with_message
def merge_config(text: str, changes: Mapping[str, Any], kind: str, path: str) -> str:
    """Return ``text`` with ``changes``; without a change it is identical."""
    return Text(config_text.merge(text, changes, kind, path))


@_with_message
def containerd_changes(config: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    """Return the changes of containerd's settings for NVIDIA's runtime; see ``containerd.changes``."""
    return containerd.changes(config_text.plain(config), **options)


@_with_message
def containerd_overridden(dump: Mapping[str, Any], **options: Any) -> str:
    """Return what another file overrides in containerd's settings; see ``containerd.overridden``."""
    return containerd.overridden(config_text.plain(dump), **options)


class FilterModule:
    """The plugin."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "containerd_changes": containerd_changes,
            "containerd_overridden": containerd_overridden,
            "merge_config": merge_config,
            "parse_config": parse_config,
        }
