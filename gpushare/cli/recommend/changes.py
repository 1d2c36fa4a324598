"""What ``recommend --apply`` changes in a workload, and what it cannot change. Pure.

Only templates of workloads are changed, since the request of a pod is fixed. The patch names the version of
the object that it was made from.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpushare.cli.recommend.sizing import Comparison, Recommendation
from gpushare.contract import RESOURCE_MEM
from gpushare.overview.objects import PodOwner

PATCHED: Final = {"Deployment": "deployments", "StatefulSet": "statefulsets", "DaemonSet": "daemonsets"}
"""Kinds of the group ``apps`` whose template can be changed, and their resources."""
MANAGER: Final = "gpushare-recommend"
_BY_HAND: Final = ("kubectl", MANAGER)
"""Managers of fields whose changes a person makes, by the beginning of the name."""
_FIXED: Final = {
    "Pod": "the request of a pod is fixed: delete it and create it again with {units}",
    "Job": "the template of a Job is fixed: delete it and create it again with {units}",
}
_UNKNOWN: Final = "its kind {kind} has no template that is known: request {units} in it"

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """Another request of one container of a workload, in units."""

    namespace: str
    owner: PodOwner
    container: str
    before: int
    after: int

    @property
    def path(self) -> str:
        """Of the workload in the API."""
        return f"/apis/apps/v1/namespaces/{self.namespace}/{PATCHED[self.owner.kind]}/{self.owner.name}"

    def __str__(self) -> str:
        return f"{self.owner} in namespace {self.namespace}, container {self.container}"


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a change is not made."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what} is not changed: {self.why}"


@dataclass(frozen=True, slots=True)
class Patch:
    """A merge patch of a workload, and who will undo it."""

    change: Change
    version: str
    spec: Object
    warnings: tuple[str, ...]

    @property
    def body(self) -> Object:
        """The body of the request; the version makes the API server refuse it if the object has changed."""
        return {"metadata": {"resourceVersion": self.version}, "spec": self.spec}


def changes(found: Iterable[Recommendation]) -> list[Change | Refused]:
    """One for each suggestion that differs from its request."""
    wanted = (each for each in found if each.verdict in (Comparison.RAISE, Comparison.LOWER))
    return [_change(each, each.suggestion or each.request) for each in wanted]


def _change(found: Recommendation, units: int) -> Change | Refused:
    change = Change(found.namespace, found.owner, found.container, found.request, units)
    if found.owner.kind in PATCHED:
        return change
    why = _FIXED.get(found.owner.kind, _UNKNOWN)
    return Refused(str(change), why.format(units=f"{RESOURCE_MEM}: {units}", kind=found.owner.kind))


def patch_of(change: Change, workload: Object) -> Patch | Refused:
    """The patch of the workload as the API server has it now."""
    if owner := next((each for each in _owners(workload) if each.get("controller")), None):
        name = f"{owner.get('kind', '').lower()}/{owner.get('name')}"
        return Refused(str(change), f"{name} owns it and would undo the change: change {name}")
    spec = workload.get("spec", {}).get("template", {}).get("spec", {})
    for field in ("containers", "initContainers"):
        present = spec.get(field) or []
        if container := next((each for each in present if each.get("name") == change.container), None):
            return _patch(change, workload, field, present, container)
    return Refused(str(change), "its template has no such container")


def _patch(
    change: Change, workload: Object, field: str, present: Iterable[Object], container: Object
) -> Patch | Refused:
    limit = container.get("resources", {}).get("limits", {}).get(RESOURCE_MEM)
    if str(limit) != str(change.before):
        return Refused(
            str(change), f"its template requests {limit} now, not {change.before}: run the command again"
        )
    # A merge patch replaces lists as a whole.
    containers = [_resized(each, change.after) if each is container else each for each in present]
    meta = workload["metadata"]
    spec = {"template": {"spec": {field: containers}}}
    return Patch(change, meta["resourceVersion"], spec, tuple(_warnings(change, meta)))


def _resized(container: Object, units: int) -> Object:
    """The container with another request; of such a resource, a request has to equal the limit."""
    resources = container["resources"]
    amounts = {
        key: {**resources[key], RESOURCE_MEM: str(units)}
        for key in ("limits", "requests")
        if RESOURCE_MEM in (resources.get(key) or {})
    }
    return {**container, "resources": {**resources, **amounts}}


def _owners(workload: Object) -> Iterable[Object]:
    return workload.get("metadata", {}).get("ownerReferences") or ()


def _warnings(change: Change, meta: Object) -> Iterator[str]:
    """Programs that have set the request, and may set it again."""
    for manager in sorted({each for each in _managers(change, meta) if not each.startswith(_BY_HAND)}):
        yield f"{manager} has set the request of {change} and may set it again: change it there too"


def _managers(change: Change, meta: Object) -> Iterator[str]:
    """The managers that own the request, by the API server's record of fields."""
    for entry in meta.get("managedFields") or ():
        template = _inside(entry.get("fieldsV1"), "f:spec", "f:template", "f:spec")
        for field in ("f:containers", "f:initContainers"):
            container = f'k:{{"name":"{change.container}"}}'
            limits = _inside(template, field, container, "f:resources", "f:limits")
            if f"f:{RESOURCE_MEM}" in limits:
                yield entry.get("manager", "")


def _inside(found: Any, *keys: str) -> Object:
    for key in keys:
        found = (found or {}).get(key)
    return found or {}
