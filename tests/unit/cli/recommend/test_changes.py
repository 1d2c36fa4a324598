"""What ``recommend --apply`` changes, and what it cannot."""

from dataclasses import replace
from typing import Any

import pytest

from gpushare.cli.recommend.changes import Change, Patch, Refused, Resize, changes, patch_of
from gpushare.cli.recommend.sizing import Basis, Observed, recommendations
from gpushare.contract import RESOURCE_MEM
from gpushare.overview.objects import PodOwner

MIB = 2**20
RESIZE = Resize("main", 4, 7)
CHANGE = Change("ml", PodOwner("Deployment", "web"), (RESIZE,))


def workload(units: Any = "4", **meta: Any) -> dict[str, Any]:
    """A Deployment whose second container requests units."""
    limits = {"cpu": "1", RESOURCE_MEM: units}
    containers = [{"name": "proxy"}, {"name": "main", "image": "i", "resources": {"limits": limits}}]
    return {
        "metadata": {"name": "web", "resourceVersion": "77", **meta},
        "spec": {"template": {"spec": {"containers": containers}}},
    }


def written_by(manager: str, field: str = f"f:{RESOURCE_MEM}") -> list[dict[str, Any]]:
    container: dict[str, Any] = {'k:{"name":"main"}': {"f:resources": {"f:limits": {field: {}}}}}
    spec = {"f:spec": {"f:template": {"f:spec": {"f:containers": container}}}}
    return [{"manager": manager, "operation": "Update", "fieldsV1": spec}]


def observed(owner: PodOwner, peak_mib: int = 7000) -> Observed:
    return Observed("ml", owner, "main", 4, granted=4308 * MIB, peak=peak_mib * MIB)


def only(owner: PodOwner, peak_mib: int = 7000) -> list[Change | Refused]:
    return changes(recommendations([observed(owner, peak_mib)], 0, Basis.SINCE_START))


def test_each_suggestion_that_differs_is_a_change() -> None:
    assert only(CHANGE.owner) == [CHANGE]
    assert only(CHANGE.owner, 2000) == [replace(CHANGE, resizes=(Resize("main", 4, 2),))]
    assert only(CHANGE.owner, 4308) == []


def wanted(*seen: Observed) -> list[str]:
    return [str(each) for each in changes(recommendations(seen, 0, Basis.SINCE_START))]


def test_the_containers_of_a_workload_are_one_change() -> None:
    main, other = observed(CHANGE.owner), replace(observed(CHANGE.owner, 2000), container="other")
    (found,) = changes(recommendations([main, other], 0, Basis.SINCE_START))
    assert found == replace(CHANGE, resizes=(RESIZE, Resize("other", 4, 2)))


SUBJECT = "deployment/web in namespace ml, container main is not changed: "
UNMEASURED = "1 of its 2 pods have no peak, and may need more than aliyun.com/gpu-mem: 2"


@pytest.mark.parametrize(
    ("other", "why"),
    [
        # The exporter of the second pod does not answer, it has no library, or it has no known unit.
        ({"peak": None}, UNMEASURED),
        ({"peak": None, "used": 1000 * MIB}, UNMEASURED),
        ({"peak": None, "granted": None}, UNMEASURED),
        (
            {"units": 8, "granted": 8616 * MIB, "peak": 8000 * MIB},
            "its pods request 4 and 8: lower it once all request the same",
        ),
    ],
)
def test_a_request_is_lowered_only_if_every_pod_is_known_to_need_less(
    other: dict[str, Any], why: str
) -> None:
    low = observed(CHANGE.owner, 2000)
    assert f"{SUBJECT}{why}" in wanted(low, replace(low, **other))


def test_a_request_is_raised_for_the_pods_that_are_known() -> None:
    high = observed(CHANGE.owner)
    assert wanted(high, replace(high, peak=None)) == [str(CHANGE)]


def test_pods_of_two_revisions_are_two_changes_of_which_the_template_admits_one() -> None:
    small = observed(CHANGE.owner)
    large = replace(small, units=5, granted=5385 * MIB)
    found = changes(recommendations([small, large], 0, Basis.SINCE_START))
    assert found == [CHANGE, replace(CHANGE, resizes=(Resize("main", 5, 7),))]


def test_nodes_with_different_units_have_no_common_request() -> None:
    gib = replace(observed(CHANGE.owner, 3000), units=4096, granted=4096 * 1024 * MIB)
    mib = replace(gib, granted=4096 * MIB)
    found = wanted(gib, mib)
    assert len(found) == 2
    assert all("its nodes have different units" in each for each in found)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("Pod", "the request of a pod is fixed: delete it and create it again with aliyun.com/gpu-mem: 7"),
        (
            "Job",
            "the template of a Job is fixed: delete it and create it again with aliyun.com/gpu-mem: 7",
        ),
        (
            "Workflow",
            "gpushare does not know the template of kind Workflow: request aliyun.com/gpu-mem: 7 in it",
        ),
    ],
)
def test_what_has_no_template_to_change_is_refused_by_name(kind: str, why: str) -> None:
    (found,) = only(PodOwner(kind, "x"))
    assert str(found) == f"{kind.lower()}/x in namespace ml, container main is not changed: {why}"


def test_the_patch_changes_one_amount_of_the_version_that_was_read() -> None:
    found = patch_of(CHANGE, workload())
    assert isinstance(found, Patch)
    resized = {"limits": {"cpu": "1", RESOURCE_MEM: "7"}}
    containers = [{"name": "proxy"}, {"name": "main", "image": "i", "resources": resized}]
    assert found.body == {
        "metadata": {"resourceVersion": "77"},
        "spec": {"template": {"spec": {"containers": containers}}},
    }
    assert found.warnings == ()


def test_containers_and_init_containers_are_patched_at_once() -> None:
    both = replace(CHANGE, resizes=(RESIZE, Resize("sidecar", 2, 3)))
    made = workload()
    sidecar = {"name": "sidecar", "resources": {"limits": {RESOURCE_MEM: "2"}}}
    made["spec"]["template"]["spec"]["initContainers"] = [sidecar]
    found = patch_of(both, made)
    assert isinstance(found, Patch)
    patched = found.body["spec"]["template"]["spec"]
    assert patched["containers"][1]["resources"]["limits"][RESOURCE_MEM] == "7"
    assert patched["initContainers"][0]["resources"]["limits"] == {RESOURCE_MEM: "3"}


def test_a_request_beside_the_limit_follows_it() -> None:
    asked = workload()
    resources = asked["spec"]["template"]["spec"]["containers"][1]["resources"]
    resources["requests"] = {"memory": "1Gi", RESOURCE_MEM: "4"}
    found = patch_of(CHANGE, asked)
    assert isinstance(found, Patch)
    patched = found.body["spec"]["template"]["spec"]["containers"][1]["resources"]
    assert patched["requests"] == {"memory": "1Gi", RESOURCE_MEM: "7"}


def test_a_workload_of_another_one_is_refused() -> None:
    owned = workload(ownerReferences=[{"kind": "Rollout", "name": "r", "controller": True}])
    assert str(patch_of(CHANGE, owned)).endswith(
        "rollout/r owns it and would undo the change: change rollout/r"
    )


@pytest.mark.parametrize("units", ["5", None])
def test_a_template_that_requests_something_else_by_now_is_refused(units: str | None) -> None:
    assert str(patch_of(CHANGE, workload(units))).endswith(
        f"its template requests {units} now, not 4: run the command again"
    )


def test_a_container_that_the_template_does_not_have_is_refused() -> None:
    injected = replace(CHANGE, resizes=(Resize("injected", 4, 7),))
    assert str(patch_of(injected, workload())).endswith("its template has no such container")


@pytest.mark.parametrize("manager", ["argocd-controller", "kustomize-controller", "helm"])
def test_a_program_that_set_the_request_is_warned_of(manager: str) -> None:
    found = patch_of(CHANGE, workload(managedFields=written_by(manager)))
    assert isinstance(found, Patch)
    where = "deployment/web in namespace ml, container main"
    assert found.warnings == (
        f"{manager} has set the request of {where} and may set it again: change it there too",
    )


@pytest.mark.parametrize(
    "fields", [written_by("kubectl-client-side-apply"), written_by("argocd-controller", "f:cpu")]
)
def test_a_person_who_set_it_and_a_program_that_set_something_else_are_not(fields: Any) -> None:
    found = patch_of(CHANGE, workload(managedFields=fields))
    assert isinstance(found, Patch)
    assert found.warnings == ()
