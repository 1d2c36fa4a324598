"""Requests to the API server in the process of a task on the controller.

A module would start a Python that imports the ``kubernetes`` library for each task and host, which takes a
second of processor time. Ansible imports action plugins once, before it forks.
What belongs here: access, requests and their errors. What does not: what they are for (``action``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ansible_collections.gpushare.nodes.plugins.plugin_utils import deep_json
from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client

try:
    from kubernetes.client.rest import ApiException
    from urllib3.exceptions import HTTPError
except ImportError as _error:
    LACKING = str(_error)
    ApiException = HTTPError = Exception
else:
    LACKING = ""

ARGUMENTS: dict[str, Any] = AUTH_ARG_SPEC
"""The arguments for access, those of the modules of kubernetes.core."""
NOT_FOUND, TOO_MANY = 404, 429


class AccessError(Exception):
    """The arguments of a task give no access to an API server."""


class Api:
    """The API server that the arguments of a task select."""

    def __init__(self, args: dict[str, Any]) -> None:
        """Read the kubeconfig. Raises AccessError, and what ``request`` raises."""
        try:
            self._client = get_api_client(**{name: args.get(name) for name in ARGUMENTS}).client
        except (ApiException, HTTPError):
            raise
        except Exception as error:  # the library raises any exception for a file that is no kubeconfig
            file = args.get("kubeconfig") or "the default kubeconfig"
            raise AccessError(
                f"{file} cannot be used for the API ({error}): set a kubeconfig on the controller"
            ) from error

    def request(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Return the document that answers; raises ``ApiException`` and ``HTTPError``."""
        answer = self._client.request(method, path, body=body, serialize=False, **options)
        return deep_json.loads(answer.data.decode("utf-8"))


def answer(args: dict[str, Any], work: Callable[[Api], dict[str, Any]]) -> dict[str, Any]:
    """Return the result of a task that does this work, or why it failed.

    A result, because Ansible does not retry a task that raises an exception.
    """
    if LACKING:
        return _failed(f"the Python of Ansible, {sys.executable}, lacks the library kubernetes ({LACKING})")
    try:
        return work(Api(args))
    except ApiException as error:
        return _failed(f"the API server returned {error.status} {error.reason}: {error.body}")
    except HTTPError as error:
        return _failed(f"the API server does not answer: {error}")
    except AccessError as error:
        return _failed(str(error))


def _failed(reason: str) -> dict[str, Any]:
    return {"failed": True, "msg": reason}
