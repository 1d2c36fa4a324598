"""Filters over functions of the Python package gpushare, which the controller must be able to import."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.text.converters import to_native

_HERE = "ansible_collections.gpushare.nodes.plugins.plugin_utils"


def filtered(module: str, name: str) -> Callable[..., Any]:
    """A function of a module beside this one; what it cannot do is a failed task, not a traceback."""

    def run(*arguments: Any, **options: Any) -> Any:
        try:
            from gpushare.errors import ConfigError  # noqa: PLC0415 - where it is missing, that is told

            function = getattr(import_module(f"{_HERE}.{module}"), name)
        except ImportError as error:
            raise AnsibleFilterError(
                f"{sys.executable} on the controller cannot import gpushare ({to_native(error)}): "
                "install it beside Ansible, with `pip install gpushare pyyaml` or "
                "`uv sync --frozen --directory ansible` in its checkout"
            ) from error
        try:
            return function(*_plain(arguments), **_plain(options))
        except ConfigError as problem:
            raise AnsibleFilterError(str(problem)) from problem

    return run


def _plain(value: Any) -> Any:
    """Without what Ansible adds to its values, which PyYAML would not write."""
    return json.loads(json.dumps(value))
