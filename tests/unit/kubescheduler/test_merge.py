from typing import Any

import pytest

from gpushare.errors import ConfigError
from gpushare.kubescheduler.config import ExtenderConfig, parse_version, render
from gpushare.kubescheduler.merge import merged

V1 = "kubescheduler.config.k8s.io/v1"


def configuration(**more: Any) -> dict[str, Any]:
    return {"apiVersion": V1, "kind": "KubeSchedulerConfiguration", **more}


def test_our_own_extender_is_replaced_not_doubled() -> None:
    old = render(ExtenderConfig("http://10.0.0.1:32766/gpushare-scheduler/"), parse_version("1.36"))
    document = merged(old, ExtenderConfig())
    assert document == render(ExtenderConfig(), parse_version("1.36"))


def test_all_nodes_are_shown_unless_the_cluster_wants_less() -> None:
    assert merged(configuration(), ExtenderConfig())["percentageOfNodesToScore"] == 100
    wanted = configuration(percentageOfNodesToScore=30)
    assert merged(wanted, ExtenderConfig())["percentageOfNodesToScore"] == 30


def test_v1alpha2_spells_its_extenders_as_a_policy_does() -> None:
    old = configuration(apiVersion="kubescheduler.config.k8s.io/v1alpha2")
    assert "enableHttps" in str(merged(old, ExtenderConfig())["extenders"])


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({}, "None None does not support extenders"),
        (configuration(kind="KubeletConfiguration"), "KubeletConfiguration .* does not support extenders"),
        (
            configuration(apiVersion="kubescheduler.config.k8s.io/v1alpha1"),
            "v1alpha1 does not support extenders",
        ),
        (configuration(extenders={}), None),
        (configuration(extenders={"a": 1}), "extenders is not a list of mappings"),
        (configuration(extenders=["a"]), "extenders is not a list of mappings"),
        (
            configuration(extenders=[{"urlPrefix": "http://a/b", "bindVerb": "bind"}]),
            "extender http://a/b also binds",
        ),
    ],
)
def test_a_configuration_that_cannot_have_the_extender_is_an_error(
    document: dict[str, Any], text: str | None
) -> None:
    if text is None:
        assert merged(document, ExtenderConfig())
        return
    with pytest.raises(ConfigError, match=text):
        merged(document, ExtenderConfig())
