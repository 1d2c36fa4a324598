"""What ``recommend --apply`` changes in a workload, and what it cannot change. Pure.

Only templates of workloads are changed, since the request of a pod is fixed. The patch names the version of
the object that it was made from. A request is lowered only if every pod is known to need less.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpushare.cli.recommend.sizing import Comparison, Recommendation
from gpushare.contract import RESOURCE_MEM
from gpushare.overview.memory_units import NodeUnit
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
_UNKNOWN: Final = "gpushare does not know the template of kind {kind}: request {units} in it"

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Resize:
    """Another request of one container, in units."""

    container: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Change:
    """Other requests of containers of a workload, which are made at once: each patch replaces its pods."""

    namespace: str
    owner: PodOwner
    resizes: tuple[Resize, ...]

    @property
    def path(self) -> str:
        """Of the workload in the API."""
        return f"/apis/apps/v1/namespaces/{self.namespace}/{PATCHED[self.owner.kind]}/{self.owner.name}"

    def container(self, name: str) -> str:
        """One of its containers in words."""
        return f"{self.owner} in namespace {self.namespace}, container {name}"

    def __str__(self) -> str:
        return self.container(" and ".join(each.container for each in self.resizes))


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
    """One for each workload with suggestions that differ from its requests, and one for each refused one."""
    containers: defaultdict[tuple[str, PodOwner, str], list[Recommendation]] = defaultdict(list)
    for each in found:
        containers[each.namespace, each.owner, each.container].append(each)
    resizes: defaultdict[tuple[str, PodOwner, int], list[Resize]] = defaultdict(list)
    refused: list[Change | Refused] = []
    for (namespace, owner, container), own in containers.items():
        wanted = (each for each in own if each.verdict in (Comparison.RAISE, Comparison.LOWER))
        # Of the pods of several revisions, the template has the request of one only.
        for revision, each in enumerate(wanted):
            resize = Resize(container, each.request, each.suggestion or each.request)
            if why := _fixed(each) or _doubt(each, own):
                refused.append(Refused(str(Change(namespace, owner, (resize,))), why))
            else:
                resizes[namespace, owner, revision].append(resize)
    made = (Change(namespace, owner, tuple(each)) for (namespace, owner, _), each in resizes.items())
    return [*made, *refused]


def _fixed(found: Recommendation) -> str:
    """Why no workload of its kind is changed; empty if they are."""
    kind = found.owner.kind
    text = "" if kind in PATCHED else _FIXED.get(kind, _UNKNOWN)
    return text.format(units=f"{RESOURCE_MEM}: {found.suggestion}", kind=kind)


def _doubt(found: Recommendation, own: Sequence[Recommendation]) -> str:
    """Why the suggestion may be wrong for some pods; ``own`` are all of the container. Empty if it is not."""
    units = f"{RESOURCE_MEM}: {found.suggestion}"
    if any(each.request == found.request and each.unit not in (found.unit, NodeUnit.UNKNOWN) for each in own):
        return f"its nodes have different units, and {units} is right on some of them only"
    if found.verdict is not Comparison.LOWER:
        return ""
    if unmeasured := sum(each.unmeasured for each in own):
        pods = sum(each.pods for each in own)
        return f"{unmeasured} of its {pods} pods have no peak, and may need more than {units}"
    requests = sorted({each.request for each in own})
    if len(requests) > 1:
        return f"its pods request {' and '.join(map(str, requests))}: lower it once all request the same"
    return ""


def patch_of(change: Change, workload: Object) -> Patch | Refused:
    """The patch of the workload as the API server has it now."""
    if owner := next((each for each in _owners(workload) if each.get("controller")), None):
        name = f"{owner.get('kind', '').lower()}/{owner.get('name')}"
        return Refused(str(change), f"{name} owns it and would undo the change: change {name}")
    template = workload.get("spec", {}).get("template", {}).get("spec", {})
    # A merge patch replaces lists as a whole.
    lists = {field: list(template.get(field) or ()) for field in ("containers", "initContainers")}
    changed = set()
    for resize in change.resizes:
        at = _position(lists, resize.container)
        if at is None:
            return Refused(change.container(resize.container), "its template has no such container")
        field, index = at
        limit = _limit(lists[field][index])
        if str(limit) != str(resize.before):
            why = f"its template requests {limit} now, not {resize.before}: run the command again"
            return Refused(change.container(resize.container), why)
        lists[field][index] = _resized(lists[field][index], resize.after)
        changed.add(field)
    meta = workload["metadata"]
    spec = {"template": {"spec": {field: lists[field] for field in sorted(changed)}}}
    return Patch(change, meta["resourceVersion"], spec, tuple(_warnings(change, meta)))


def _position(lists: Mapping[str, Sequence[Object]], container: str) -> tuple[str, int] | None:
    """Where the container is: the field and the index in it."""
    found = ((field, index) for field, each in lists.items() for index in range(len(each)))
    return next((at for at in found if lists[at[0]][at[1]].get("name") == container), None)


def _limit(container: Object) -> Any:
    return container.get("resources", {}).get("limits", {}).get(RESOURCE_MEM)


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
    """Programs that have set a request, and may set it again."""
    for resize in change.resizes:
        name = resize.container
        for manager in sorted({each for each in _managers(name, meta) if not each.startswith(_BY_HAND)}):
            what = f"the request of {change.container(name)}"
            yield f"{manager} has set {what} and may set it again: change it there too"


def _managers(container: str, meta: Object) -> Iterator[str]:
    """The managers that own the request, by the API server's record of fields."""
    key = f'k:{{"name":"{container}"}}'
    for entry in meta.get("managedFields") or ():
        template = _inside(entry.get("fieldsV1"), "f:spec", "f:template", "f:spec")
        for field in ("f:containers", "f:initContainers"):
            if f"f:{RESOURCE_MEM}" in _inside(template, field, key, "f:resources", "f:limits"):
                yield entry.get("manager", "")


def _inside(found: Any, *keys: str) -> Object:
    for key in keys:
        found = (found or {}).get(key)
    return found or {}
