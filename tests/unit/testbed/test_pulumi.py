"""Pulumi's programs, project folder and events, without an engine."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.pulumi.outcome import outcome_of
from testbed.pulumi.programs import environment, home, link
from testbed.pulumi.project import configure, lay_out

URN = "urn:pulumi:test::gpushare::gpushare:index:GpuShare$kubernetes:apps/v1:Deployment::extender"


def event(op: str, kind: str = "resourcePreEvent", **metadata: Any) -> str:
    named = {"metadata": {"name": "extender", "namespace": "kube-system"}}
    known = {"op": op, "urn": URN, "type": "kubernetes:apps/v1:Deployment", "new": {"inputs": named}}
    return json.dumps({"sequence": 1, kind: {"metadata": {**known, **metadata}}})


def test_an_object_is_named_by_kind_namespace_and_name() -> None:
    (step,) = outcome_of([event("create")], "").steps
    assert (step.object, step.op) == ("Deployment/kube-system/extender", "create")


def test_what_is_no_object_of_kubernetes_has_no_such_name() -> None:
    outcome = outcome_of([event("create", type="gpushare:index:GpuShare")], "")
    assert [step.object for step in outcome.steps] == [""]
    assert outcome.changes == {}


def test_an_object_that_goes_is_named_by_what_it_was() -> None:
    old = {"inputs": {"metadata": {"name": "team-a"}}}
    outcome = outcome_of([event("delete", new=None, old=old, type="kubernetes:core/v1:Namespace")], "")
    assert outcome.changes == {"Namespace/team-a": "delete"}


def test_the_last_word_about_a_resource_counts() -> None:
    events = [event("refresh"), event("delete", "resOutputsEvent")]
    assert outcome_of(events, "").changes == {"Deployment/kube-system/extender": "delete"}


@pytest.mark.parametrize("op", ["same", "refresh", "read"])
def test_what_stays_as_it_is_is_no_change(op: str) -> None:
    outcome = outcome_of([event(op)], "")
    assert outcome.changes == {}
    assert len(outcome.objects) == 1


def test_changed_fields_are_known_by_their_paths() -> None:
    diff = {"spec.replicas": {"diffKind": "update"}, "metadata.labels.a": {"diffKind": "add"}}
    outcome = outcome_of([event("update", detailedDiff=diff)], "")
    assert outcome.step("Deployment/kube-system/extender").diff == ("metadata.labels.a", "spec.replicas")


def test_events_of_other_kinds_are_passed_over() -> None:
    assert outcome_of(['{"sequence": 0, "preludeEvent": {}}'], "text").text == "text"


def test_a_project_has_the_program_and_what_it_imports(tmp_path: Path) -> None:
    project = lay_out(tmp_path / "project")
    assert yaml.safe_load((project / "Pulumi.yaml").read_text())["name"] == "gpushare"
    assert (project / "components" / "resources.py").is_file()
    assert (project / "gpushare" / "contract.py").is_file()


def test_what_the_engine_keeps_in_a_stacks_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.one.yaml"
    file.write_text("encryptionsalt: abc\nconfig: {gpushare:context: old}\n")
    configure(tmp_path, "one", {"kubernetesVersion": "1.36"})
    document = yaml.safe_load(file.read_text())
    assert document == {"encryptionsalt": "abc", "config": {"gpushare:kubernetesVersion": "1.36"}}


def test_programs_are_linked_under_the_names_that_the_engine_looks_for(tmp_path: Path) -> None:
    link(tmp_path / "bin", {"pulumi": tmp_path / "one"})
    link(tmp_path / "bin", {"pulumi": tmp_path / "other"})
    assert (tmp_path / "bin" / "pulumi").readlink() == tmp_path / "other"


def test_home_state_and_plugins_are_the_stacks_own(tmp_path: Path) -> None:
    variables = environment(tmp_path, tmp_path / "bin")
    assert variables["HOME"] == str(home(tmp_path))
    assert variables["PULUMI_BACKEND_URL"] == f"file://{tmp_path}/state"
    assert variables["PATH"].startswith(f"{tmp_path}/bin:")
