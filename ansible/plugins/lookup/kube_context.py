"""Lookup plugin: the context of a kubeconfig that a role uses."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.model import yaml_text

DOCUMENTATION = r"""
name: kube_context
short_description: Return the configured context of a kubeconfig, or its only one
description:
  - Returns the name of the context, or an empty string if no kubeconfig is used, for example in a pod.
  - Fails if there are several contexts. The current one is not used, because it changes with every
    C(kubectl config use-context).
options:
  _terms:
    description: The kubeconfig. Empty means E(K8S_AUTH_KUBECONFIG), E(KUBECONFIG) or C(~/.kube/config).
    required: true
  context:
    description: The context's name. Empty means E(K8S_AUTH_CONTEXT), or the only one.
    type: str
    default: ""
  setting:
    description: The variable that sets the context, for messages.
    type: str
    required: true
author:
  - The gpushare authors
"""

EXAMPLES = r"""
- name: Show the context
  ansible.builtin.debug:
    msg: "{{ lookup('gpushare.nodes.kube_context', '~/.kube/config', setting='validate_context') }}"
"""

RETURN = r"""
_raw:
  description: One name.
  type: list
  elements: str
"""


class LookupModule(LookupBase):
    """The plugin."""

    def run(self, terms: list[str], variables: Any = None, **kwargs: Any) -> list[str]:
        """Return a list with the name of the context."""
        del variables
        kubeconfig = terms[0] or os.environ.get("K8S_AUTH_KUBECONFIG", "")
        context = kwargs.get("context") or os.environ.get("K8S_AUTH_CONTEXT", "")
        if not kubeconfig and not context and _is_elsewhere():
            return [""]
        try:
            listed, current = contexts(_read(kubeconfig))
            where = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
            return [choose(listed, current, context, where, kwargs["setting"])]
        except OSError as problem:
            text = f"{problem.filename} cannot be read ({problem.strerror}): set cluster_kubeconfig of the "
            raise AnsibleLookupError(f"{text}inventory to a kubeconfig on the controller") from problem
        except (yaml.YAMLError, ContextError) as problem:
            raise AnsibleLookupError(str(problem)) from problem


def _is_elsewhere() -> bool:
    """Return whether the modules of kubernetes.core use another source than a kubeconfig."""
    return any(name in os.environ for name in ("K8S_AUTH_HOST", "KUBERNETES_SERVICE_HOST"))


def _read(kubeconfig: str) -> Iterator[Mapping[str, Any]]:
    """Yield the documents in the order of kubectl; only the file ``kubeconfig`` must exist."""
    defaults = os.environ.get("KUBECONFIG", "~/.kube/config").split(os.pathsep)
    paths = [Path(each).expanduser() for each in ([kubeconfig] if kubeconfig else defaults)]
    for path in paths:
        if kubeconfig or path.is_file():
            yield yaml_text.parse(path.read_text()) or {}


class ContextError(ValueError):
    """No context or no unique context; the message has the fix."""


def contexts(documents: Iterable[Mapping[str, Any]]) -> tuple[list[str], str]:
    """Return the names of all contexts and the current one ("" for none) of kubeconfigs, first ones first."""
    listed = list(documents)
    names = [each["name"] for document in listed for each in document.get("contexts") or []]
    current = next(
        (document["current-context"] for document in listed if document.get("current-context")), ""
    )
    return list(dict.fromkeys(names)), current


def choose(names: Sequence[str], current: str, requested: str, where: str, setting: str) -> str:
    """Return the context to use, "" if there is none; ``where`` and ``setting`` are for messages.

    Of several contexts the current one is not used, because it changes with every ``kubectl config
    use-context``. Raises ContextError.
    """
    if requested and requested not in names:
        raise ContextError(
            f'{setting} is "{requested}", which {where} does not have: use one of {_list(names)}'
        )
    if not requested and len(names) > 1:
        raise ContextError(
            f"{setting} is empty, and {where} has several contexts: {_list(names)} (current: "
            f"{current or 'none'}). Set {setting}, or cluster_context for all roles, to the context of this "
            "inventory's cluster"
        )
    return requested or (names[0] if names else "")


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
