"""The rights that our service accounts need, as a check asks for them. Pure.

A test compares them with the roles that the deployment creates.
"""

from dataclasses import dataclass
from typing import Final

from gpushare.contract import AGENT_NAME, EXPORTER_NAME, EXTENDER_NAME, SEAL_SECRET, SYSTEM_NAMESPACE

_LEASES: Final = "coordination.k8s.io"


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a resource; in all namespaces unless ``namespaced``, then in kube-system."""

    verb: str
    resource: str
    group: str = ""
    namespaced: bool = False
    name: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"

    def review(self, account: str) -> dict[str, object]:
        """The SubjectAccessReview for a service account in kube-system."""
        resource, _, subresource = self.resource.partition("/")
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{SYSTEM_NAMESPACE}:{account}",
                "groups": [
                    "system:serviceaccounts",
                    f"system:serviceaccounts:{SYSTEM_NAMESPACE}",
                    "system:authenticated",
                ],
                "resourceAttributes": {
                    "verb": self.verb,
                    "group": self.group,
                    "resource": resource,
                    "subresource": subresource,
                    "namespace": SYSTEM_NAMESPACE if self.namespaced else "",
                    "name": self.name,
                },
            },
        }


_LEASE: Final = (
    Right("create", "leases", _LEASES, namespaced=True),
    *(Right(verb, "leases", _LEASES, namespaced=True, name=EXTENDER_NAME) for verb in ("get", "update")),
)
LEASE_RIGHTS: Final = frozenset(map(str, _LEASE))
"""Those that an extender with ``--allow-without-lease`` does not need."""
EVICTION: Final = Right("create", "pods/eviction")
"""What an extender with ``--make-room evict`` needs too."""
RIGHTS: Final[dict[str, tuple[Right, ...]]] = {
    EXTENDER_NAME: (
        *(Right(verb, "nodes") for verb in ("list", "watch")),
        *(Right(verb, "pods") for verb in ("get", "list", "watch")),
        Right("create", "pods/binding"),
        Right("create", "events"),
        *(Right(verb, "poddisruptionbudgets", "policy") for verb in ("list", "watch")),
        *(Right(verb, "configmaps", namespaced=True) for verb in ("list", "watch")),
        *_LEASE,
        *(Right(verb, "secrets", namespaced=True, name=SEAL_SECRET) for verb in ("get", "patch", "create")),
        EVICTION,
    ),
    AGENT_NAME: (
        *(Right(verb, resource) for resource in ("nodes", "pods") for verb in ("list", "watch")),
        Right("patch", "nodes/status"),
        Right("patch", "pods/status"),
        Right("create", "events"),
        *(Right(verb, "configmaps", namespaced=True) for verb in ("create", "patch")),
    ),
    EXPORTER_NAME: tuple(
        Right(verb, resource) for resource in ("nodes", "pods") for verb in ("list", "watch")
    ),
}
