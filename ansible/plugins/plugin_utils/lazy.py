"""Filters that import their function when they are used, and values of Ansible as plain Python types.

Ansible skips a filter plugin that cannot be imported, and then only reports that the filter does not exist.
Here an import error, and an error of the function, fail the task with a message.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.text.converters import to_native

_COLLECTION = "ansible_collections.gpushare.nodes"
_HERE = f"{_COLLECTION}.plugins.plugin_utils"
_OLDEST_PYTHON = (3, 11)


def lazy(module: str, name: str, *, plain: bool = False) -> Callable[..., Any]:
    """Return a filter that calls a function of a module in this package.

    ``plain`` converts Ansible values to plain values.
    """

    def run(*arguments: Any, **options: Any) -> Any:
        function, refusal = _import(module, name), _import("gpushare.errors", "GpuShareError")
        if plain:
            arguments, options = to_plain(arguments), to_plain(options)
        try:
            return function(*arguments, **options)
        except refusal as problem:
            raise AnsibleFilterError(str(problem)) from problem

    return run


def to_plain(value: Any) -> Any:
    """Return a value of JSON in plain types: PyYAML, tomlkit and json cannot write the strings of Ansible."""
    return json.loads(json.dumps(value))


def _import(module: str, name: str) -> Any:
    if sys.version_info < _OLDEST_PYTHON:
        raise AnsibleFilterError(
            f"{sys.executable} on the controller is Python {_dotted(sys.version_info[:2])}: "
            f"gpushare.nodes needs Ansible on Python {_dotted(_OLDEST_PYTHON)} or later"
        )
    try:
        return getattr(import_module(f"{_HERE}.{module}"), name)
    except ImportError as error:
        if not (error.name or "").startswith(_COLLECTION):
            raise AnsibleFilterError(
                f"{sys.executable} on the controller lacks a library ({error}): pip install tomlkit pyyaml"
            ) from error
        raise AnsibleFilterError(
            f"the collection gpushare.nodes is incomplete on the controller ({to_native(error)}): "
            "run `make setup` in the checkout, or install its tarball again, with --force"
        ) from error


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
