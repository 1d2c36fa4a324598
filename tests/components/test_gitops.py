"""The examples for Argo CD and Flux are about objects that stacks have."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from components.manifests import STAGES, everything, kept
from components.stack import from_file, load
from gpushare.contract import SCHEDULER_NAMING, SYSTEM_NAMESPACE
from tests.support.builders.stacks import ROOT, STACKS

Object = dict[str, Any]
FOLDER = ROOT / "examples" / "gitops"
KUSTOMIZATION: Object = yaml.safe_load((FOLDER / "argocd/kustomization.yaml").read_text())
APPLICATION: Object = yaml.safe_load((FOLDER / "argocd/application.yaml").read_text())
FLUX: list[Object] = list(yaml.safe_load_all((FOLDER / "flux/kustomizations.yaml").read_text()))
WAVE = "argocd.argoproj.io/sync-wave"
ARGO_KEEPS = ("argocd.argoproj.io/sync-options", "Prune=false,Delete=false")
FLUX_KEEPS = ("kustomize.toolkit.fluxcd.io/prune", "disabled")
PATCHES = {"argocd": KUSTOMIZATION["patches"], "flux": FLUX[-1]["spec"]["patches"]}


def objects(name: str) -> list[Object]:
    return everything(load(from_file(STACKS[name])))


def is_target(target: Object, each: Object) -> bool:
    """As kustomize selects: both are regular expressions for the whole text."""
    texts = {"kind": each["kind"], "name": each["metadata"]["name"]}
    return all(re.fullmatch(pattern, texts[key]) for key, pattern in target.items())


def annotations(patches: list[Object], each: Object) -> dict[str, str]:
    """What the patches add to an object."""
    added: dict[str, str] = {}
    for patch in patches:
        if is_target(patch["target"], each):
            added |= yaml.safe_load(patch["patch"])["metadata"]["annotations"]
    return added


def waves(name: str) -> Iterator[tuple[str, int]]:
    """Kind and name of each object, and its wave."""
    for each in objects(name):
        wave = annotations(KUSTOMIZATION["patches"], each).get(WAVE, "0")
        yield f"{each['kind']}/{each['metadata']['name']}", int(wave)


def wave_of(name: str, pattern: str) -> set[int]:
    found = {wave for which, wave in waves(name) if re.fullmatch(pattern, which)}
    assert found, pattern
    return found


@pytest.mark.parametrize("tool", PATCHES)
def test_every_patch_has_an_object_to_change(tool: str) -> None:
    whole = [each for name in STACKS for each in objects(name)]
    for patch in PATCHES[tool]:
        assert any(is_target(patch["target"], each) for each in whole), patch["target"]


def test_argo_cd_completes_certificates_then_the_extender_then_everything_else() -> None:
    order = [
        wave_of("installer", "Job/gpushare-certificates-.*|ServiceAccount/gpushare-certificates"),
        wave_of("installer", "(Deployment|Role|ServiceAccount|Service)/gpushare-schd-extender"),
        wave_of("installer", "Job/gpushare-installer"),
    ]
    assert [len(each) for each in order] == [1, 1, 1]
    assert max(order[0]) < min(order[1]) < min(order[2])
    assert wave_of("sidecar", "ConfigMap/gpushare-scheduler") == order[1]


def test_nothing_waits_for_the_daemons_of_nodes_of_which_one_may_be_down() -> None:
    last = max(wave for _, wave in waves("everything"))
    assert wave_of("everything", "DaemonSet/.*") == {last}
    assert [each["spec"]["wait"] for each in FLUX] == [True, True, False]


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize(("tool", "keeps"), [("argocd", ARGO_KEEPS), ("flux", FLUX_KEEPS)])
def test_what_others_use_is_never_pruned_and_all_else_is(
    name: str, tool: str, keeps: tuple[str, str]
) -> None:
    settings = load(from_file(STACKS[name]))
    expected = kept(settings)
    annotation, value = keeps
    found = [
        each for each in everything(settings) if annotations(PATCHES[tool], each).get(annotation) == value
    ]
    assert sorted(map(str, found)) == sorted(map(str, expected))


def test_every_ignored_field_is_one_that_cert_manager_writes_into_an_object_of_a_stack() -> None:
    ours = [
        each for each in objects("managed") if each["kind"] in ("APIService", "MutatingWebhookConfiguration")
    ]
    for ignored in APPLICATION["spec"]["ignoreDifferences"]:
        concerned = [
            each
            for each in ours
            if each["kind"] == ignored["kind"]
            and each["apiVersion"].partition("/")[0] == ignored["group"]
            and ignored.get("name", each["metadata"]["name"]) == each["metadata"]["name"]
        ]
        assert concerned, ignored
        paths = [*ignored.get("jsonPointers", ()), *ignored.get("jqPathExpressions", ())]
        assert paths in (["/spec/caBundle"], [".webhooks[]?.clientConfig.caBundle"])
        for each in concerned:
            assert "cert-manager.io/inject-ca-from" in each["metadata"]["annotations"]
            for place in [each["spec"]] if "spec" in each else [h["clientConfig"] for h in each["webhooks"]]:
                assert "service" in place
                assert "caBundle" not in place
    assert SCHEDULER_NAMING in {each["metadata"]["name"] for each in ours}


def test_objects_without_a_namespace_are_those_of_the_cluster() -> None:
    """The Application has no namespace for others."""
    assert "namespace" not in APPLICATION["spec"]["destination"]
    for name in STACKS:
        for each in objects(name):
            if each["kind"] in ("Deployment", "DaemonSet", "Job", "CronJob", "ConfigMap", "Service"):
                assert each["metadata"]["namespace"] == SYSTEM_NAMESPACE


def test_flux_has_one_kustomization_for_each_stage_that_depends_on_the_one_before() -> None:
    folders = [each["spec"]["path"].rpartition("/")[2] for each in FLUX]
    assert folders == [*STAGES, "others"]
    names = [each["metadata"]["name"] for each in FLUX]
    for before, each in zip(names, FLUX[1:], strict=False):
        assert each["spec"]["dependsOn"] == [{"name": before}]
    assert all(each["spec"]["prune"] for each in FLUX)
