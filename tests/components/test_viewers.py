"""The rights of users who run the commands that read."""

import pytest

from components.manifests import everything, viewers
from components.stack import load
from gpushare.errors import ConfigError
from tests.support.builders.stacks import DIGEST, raw_stack

EXPORTER = {"exporter": {"image": DIGEST}}


def test_groups_are_bound_to_rights_that_only_read() -> None:
    objects = viewers.objects(["a", "b"])
    rules = {
        each["kind"]: [(rule["resources"], rule["verbs"]) for rule in each["rules"]]
        for each in objects
        if "rules" in each
    }
    assert rules == {
        "ClusterRole": [(["nodes"], ["get", "list", "watch"]), (["pods"], ["list", "watch"])],
        "Role": [(["pods/proxy"], ["get"]), (["leases"], ["get"])],
    }
    subjects = [[each["name"] for each in found["subjects"]] for found in objects if "subjects" in found]
    assert subjects == [["a", "b"], ["a", "b"]]


def test_without_groups_there_are_no_rights() -> None:
    names = [each["metadata"]["name"] for each in everything(load(raw_stack(monitoring=EXPORTER)))]
    assert "gpushare-viewer" not in names


def test_a_group_needs_a_name() -> None:
    with pytest.raises(ConfigError) as error:
        load(raw_stack(monitoring={**EXPORTER, "viewers": ["a", ""]}))
    assert str(error.value).startswith("monitoring.viewers: '' is not allowed; use names of groups")
