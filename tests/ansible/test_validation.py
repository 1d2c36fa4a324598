"""What the role validate says of a host and of its node, one fact changed at a time."""

import json
from typing import Any

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.checks import Check, Level
from ansible_collections.gpushare.nodes.plugins.plugin_utils.validation import Terms, checks
from gpushare.contract import ANN_CARDS, RESOURCE_MEM, RESOURCE_WHOLE_GPU
from tests.ansible.reports import report

TERMS: dict[str, Any] = {
    "node": "share",
    "driver_minimum": "418.87.01",
    "driver_version": "",
    "container_runtime": "auto",
    "services": ["kubelet"],
    "labels": {"gpushare": "true"},
    "node_name": "gpu-1",
    "cluster": True,
}
ANSWERS = {"status": 200}


def published(cards: int) -> str:
    return json.dumps([{"index": index, "units": 31} for index in range(cards)])


def node(
    *,
    ready: str = "True",
    labels: dict[str, str] | None = None,
    cards: str | None = published(2),
    spec: dict[str, Any] | None = None,
    **allocatable: str,
) -> dict[str, Any]:
    amounts = (
        {RESOURCE_MEM: "62"} if not allocatable else {NAMES[key]: text for key, text in allocatable.items()}
    )
    return {
        "metadata": {
            "labels": {"gpushare": "true"} if labels is None else labels,
            "annotations": {} if cards is None else {ANN_CARDS: cards},
        },
        "spec": spec or {},
        "status": {"conditions": [{"type": "Ready", "status": ready}], "allocatable": amounts},
    }


NAMES = {"mem": RESOURCE_MEM, "whole": RESOURCE_WHOLE_GPU}


def check(
    check_name: str,
    terms: dict[str, Any] | None = None,
    of_node: dict[str, Any] | None = None,
    answer: dict[str, Any] | None = None,
    /,
    **changes: Any,
) -> Check:
    of_node = node() if of_node is None else of_node
    made = checks(report(**changes), Terms(**TERMS | (terms or {})), of_node, answer or {})
    return next(one for one in made if one.name == check_name)


def test_a_node_as_it_should_be_passes_every_check() -> None:
    made = checks(report(), Terms(**TERMS), node(), ANSWERS)
    assert {one.level for one in made} == {Level.OK}
    names = [one.name for one in made]
    assert names == ["driver", "cards", "runtime", "toolkit", "services", "node", "offer", "extender"]


def test_a_plain_node_is_asked_for_services_and_its_node_only() -> None:
    made = checks(report(gpus=[]), Terms(**TERMS | {"node": "plain"}), node(), {})
    assert [one.name for one in made] == ["services", "node"]


def test_without_the_api_nothing_is_said_of_the_node() -> None:
    made = checks(report(), Terms(**TERMS | {"cluster": False}), {}, {})
    assert not {"node", "offer"} & {one.name for one in made}


@pytest.mark.parametrize(
    ("terms", "changes", "says"),
    [
        (
            {},
            {"asked__smi": {"version": None, "cards": 0, "error": "no driver"}},
            "does not answer (no driver)",
        ),
        ({}, {"asked__smi__version": "418.67"}, "older than 418.87.01"),
        ({"driver_version": "570"}, {}, "580.65.06 is not 570"),
        ({"driver_version": "58"}, {}, "580.65.06 is not 58"),
        ({}, {"driver__loaded": "570.1"}, "570.1 is loaded and 580.65.06 installed: reboot"),
    ],
)
def test_a_wrong_driver_fails(terms: dict[str, Any], changes: dict[str, Any], says: str) -> None:
    found = check("driver", terms, **changes)
    assert found.level is Level.FAIL
    assert says in found.problem


@pytest.mark.parametrize("wanted", ["580", "580.65", "580.65.06"])
def test_the_wanted_driver_may_be_a_branch(wanted: str) -> None:
    assert check("driver", {"driver_version": wanted}).level is Level.OK


def test_cards_that_the_driver_does_not_see_fail() -> None:
    assert check("cards", asked__smi__cards=1).found == "1 of 2"
    assert check("cards", asked__smi__cards=1).level is Level.FAIL
    assert "on the PCI bus" in check("cards", gpus=[], asked__smi__cards=0).problem


DOCKER = {
    "programs__docker": "28.2.2",
    "services__docker__state": "active",
    "kubelet__runtime_endpoint": "unix:///run/cri-dockerd.sock",
    "runtimes__docker": True,
    "asked__docker": {"default": "nvidia", "runtimes": ["nvidia", "runc"]},
}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"programs__containerd": None}, "no containerd is installed"),
        ({"services__containerd__state": "failed"}, "its service containerd is failed"),
        ({"runtimes__containerd": False}, "do not name NVIDIA's runtime"),
        (DOCKER | {"asked__docker": {"default": "runc", "runtimes": ["runc"]}}, "restart it"),
        (DOCKER | {"asked__docker": {"default": "runc", "runtimes": ["nvidia"]}}, "default runtime is runc"),
        (
            {"asked__container_cli": {"cards": 0, "error": "nvml error"}},
            "nvidia-container-cli says nvml error",
        ),
        ({"asked__container_cli": {"cards": 1, "error": None}}, "given 1 of 2 cards"),
    ],
)
def test_a_runtime_that_does_not_see_the_cards_fails(changes: dict[str, Any], says: str) -> None:
    found = check("runtime", **changes)
    assert found.level is Level.FAIL
    assert says in found.problem


def test_a_cdi_description_does_instead_of_nvidias_runtime() -> None:
    changes = {"runtimes__containerd": False, "runtimes__cdi": True}
    assert check("runtime", **changes).level is Level.OK


def test_docker_with_nvidias_runtime_as_default_passes() -> None:
    assert check("runtime", **DOCKER) == Check("runtime", Level.OK, "docker 28.2.2")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"programs__nvidia_ctk": None}, "is not installed"),
        ({"toolkit__volume_mounts": None}, "accept-nvidia-visible-devices-as-volume-mounts is not true"),
        (
            {"toolkit__envvar_unprivileged": True},
            "accept-nvidia-visible-devices-envvar-when-unprivileged is not false",
        ),
    ],
)
def test_a_toolkit_that_lets_pods_choose_their_cards_fails(changes: dict[str, Any], says: str) -> None:
    found = check("toolkit", **changes)
    assert found.level is Level.FAIL
    assert says in found.problem


def test_services_that_do_not_run_are_named() -> None:
    found = check("services", {"services": ["kubelet", "docker"]})
    assert (found.found, found.problem) == ("1 of 2", "service docker is absent: journalctl -u docker")


@pytest.mark.parametrize(
    ("of_node", "says"),
    [
        ({}, "the cluster has no node gpu-1"),
        (node(ready="Unknown"), "is not Ready"),
        (node(spec={"unschedulable": True}), "kubectl uncordon gpu-1"),
        (node(labels={}), "label gpushare is missing, not true"),
        (node(labels={"gpushare": "false"}), "label gpushare is false, not true"),
    ],
)
def test_a_node_that_is_not_there_or_not_as_labelled_fails(of_node: dict[str, Any], says: str) -> None:
    found = check("node", None, of_node)
    assert found.level is Level.FAIL
    assert says in found.problem


@pytest.mark.parametrize(
    ("terms", "of_node", "says"),
    [
        ({}, node(mem="0"), f"offers no {RESOURCE_MEM}"),
        ({}, node(whole="2"), f"offers no {RESOURCE_MEM}"),
        ({}, node(mem="62", whole="2"), "cards are given twice"),
        ({"node": "whole"}, node(mem="62"), f"offers no {RESOURCE_WHOLE_GPU}"),
        ({}, node(cards=published(1)), "shares 1 of 2 cards"),
        ({}, node(cards="{"), "cannot be read"),
    ],
)
def test_a_node_that_offers_the_wrong_thing_fails(
    terms: dict[str, Any], of_node: dict[str, Any], says: str
) -> None:
    found = check("offer", terms, of_node)
    assert found.level is Level.FAIL
    assert says in found.problem


@pytest.mark.parametrize(
    ("terms", "of_node"),
    [({}, node(mem="15k")), ({}, node(cards=None)), ({"node": "whole"}, node(whole="2", cards=None))],
)
def test_a_node_that_offers_the_right_thing_passes(terms: dict[str, Any], of_node: dict[str, Any]) -> None:
    assert check("offer", terms, of_node).level is Level.OK


def test_an_extender_that_does_not_answer_this_host_fails() -> None:
    answer = {"status": -1, "url": "http://127.0.0.1:32766/version", "msg": "refused"}
    found = check("extender", None, None, answer)
    assert found.level is Level.FAIL
    assert found.problem.startswith("http://127.0.0.1:32766/version does not answer from this host (refused)")
    assert json.dumps(found.found) == '"no answer"'
