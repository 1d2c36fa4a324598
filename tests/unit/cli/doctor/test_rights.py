"""The rights that the doctor asks for are those that the deployment grants."""

import pytest

from components.config_extender import Exposure, Extender
from components.config_monitoring import Exporter
from components.manifests import device_plugin, exporter, extender
from components.manifests.parts import Object
from gpushare.cli.doctor.rights import RIGHTS, Right
from gpushare.contract import AGENT_NAME, EXPORTER_NAME, EXTENDER_NAME, SYSTEM_NAMESPACE
from gpushare.kubescheduler.config import KubernetesVersion
from gpushare.model.options import MakeRoom

VERSION = KubernetesVersion(1, 36)
MANIFESTS = {
    EXTENDER_NAME: extender.objects(Extender(exposure=Exposure.NODE_PORT, make_room=MakeRoom.EVICT), VERSION),
    AGENT_NAME: device_plugin.shared(VERSION, query_kubelet=False, startup_taint=False),
    EXPORTER_NAME: exporter.objects(Exporter()),
}


def granted(objects: list[Object]) -> set[Right]:
    return {
        Right(verb, resource, group, each["kind"] == "Role", name)
        for each in objects
        if each["kind"] in ("ClusterRole", "Role")
        for rule in each["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


@pytest.mark.parametrize("account", RIGHTS)
def test_the_rights_are_those_of_the_roles(account: str) -> None:
    assert set(RIGHTS[account]) == granted(MANIFESTS[account])


def test_a_review_names_the_account_and_the_subresource() -> None:
    spec = Right("create", "pods/binding").review(EXTENDER_NAME)["spec"]
    assert isinstance(spec, dict)
    assert spec["user"] == f"system:serviceaccount:{SYSTEM_NAMESPACE}:{EXTENDER_NAME}"
    assert spec["resourceAttributes"]["subresource"] == "binding"
    assert spec["resourceAttributes"]["namespace"] == ""
