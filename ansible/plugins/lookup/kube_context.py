"""Lookup plugin: the context of a kubeconfig that a role uses."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleLookupError

from ansible.plugins.lookup import LookupBase
from ansible_collections.gpushare.nodes.plugins.plugin_utils import kube_context

DOCUMENTATION = r"""
name: kube_context
short_description: The context of a kubeconfig that is named, or its only one
description:
  - Returns the context's name, or an empty string where no kubeconfig is used, as inside of a cluster.
  - Fails where several contexts could be meant. The current one is not taken, since it is the one that
    somebody's last C(kubectl config use-context) was about.
options:
  _terms:
    description: The kubeconfig. Empty means E(K8S_AUTH_KUBECONFIG), E(KUBECONFIG) or C(~/.kube/config).
    required: true
  context:
    description: The context's name. Empty means E(K8S_AUTH_CONTEXT), or the only one.
    type: str
    default: ""
  setting:
    description: The variable that names the context, for messages.
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
    """What Ansible looks for."""

    def run(self, terms: list[str], variables: Any = None, **kwargs: Any) -> list[str]:
        """Return the name of the context in a list of one."""
        del variables
        named = terms[0] or os.environ.get("K8S_AUTH_KUBECONFIG", "")
        asked = kwargs.get("context") or os.environ.get("K8S_AUTH_CONTEXT", "")
        if not named and not asked and _is_elsewhere():
            return [""]
        try:
            listed, current = kube_context.contexts(_read(named))
            where = named or os.environ.get("KUBECONFIG") or "~/.kube/config"
            return [kube_context.choose(listed, current, asked, where, kwargs["setting"])]
        except (OSError, yaml.YAMLError, kube_context.ContextError) as problem:
            raise AnsibleLookupError(str(problem)) from problem


def _is_elsewhere() -> bool:
    """Whether the modules of kubernetes.core take the cluster from somewhere else than a kubeconfig."""
    return any(name in os.environ for name in ("K8S_AUTH_HOST", "KUBERNETES_SERVICE_HOST"))


def _read(named: str) -> Iterator[Mapping[str, Any]]:
    """Yield the documents in kubectl's order; only a file that was named must be there."""
    usual = os.environ.get("KUBECONFIG", "~/.kube/config").split(os.pathsep)
    paths = [Path(each).expanduser() for each in ([named] if named else usual)]
    for path in paths:
        if named or path.is_file():
            yield yaml.safe_load(path.read_text()) or {}
