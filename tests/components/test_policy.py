"""Our stacks comply with the policy pack, and the error for a violation names it."""

import json
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import grpc
import pytest
from google.protobuf import json_format, struct_pb2
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

from components.manifests import everything
from components.stack import from_file, load
from policy.rules import RULES
from tests.support.builders.stacks import ROOT, STACKS, raw_stack, sidecar

Object = dict[str, Any]
PYTHON = ROOT / "policy" / ".venv" / "bin" / "python"
DEADLINE_S = 30


def broken(manifest: Object) -> dict[str, list[str]]:
    found = {name: list(rule(manifest)) for name, rule in RULES.items()}
    return {name: texts for name, texts in found.items() if texts}


@pytest.mark.parametrize("name", STACKS)
def test_our_stacks_comply_with_every_rule(name: str) -> None:
    for manifest in everything(load(from_file(STACKS[name]))):
        assert broken(manifest) == {}, manifest["metadata"]["name"]


def deployment() -> Object:
    """A Deployment of a stack with an extender that needs nothing of its node."""
    objects = everything(load(raw_stack(extender=sidecar())))
    (found,) = [each for each in objects if each["kind"] == "Deployment"]
    return deepcopy(found)


def container(manifest: Object) -> Object:
    found: Object = manifest["spec"]["template"]["spec"]["containers"][0]
    return found


def pod(manifest: Object) -> Object:
    found: Object = manifest["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize(
    ("spoil", "rule", "text"),
    [
        (
            lambda m: container(m).update(image="a/b:latest"),
            "pinned-images",
            "'a/b:latest' is not pinned",
        ),
        (lambda m: container(m).update(image="a:5000/b"), "pinned-images", "'a:5000/b' is not pinned"),
        (lambda m: container(m).pop("image"), "pinned-images", "'' is not pinned"),
        (
            lambda m: container(m)["securityContext"].update(privileged=True),
            "no-privileged-pods",
            "privileged",
        ),
        (
            lambda m: container(m)["securityContext"].pop("allowPrivilegeEscalation"),
            "no-privileged-pods",
            "allowPrivilegeEscalation is not false",
        ),
        (
            lambda m: container(m)["securityContext"].update(
                capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]}
            ),
            "no-privileged-pods",
            "adds capabilities SYS_ADMIN",
        ),
        (
            lambda m: container(m)["securityContext"].pop("capabilities"),
            "no-privileged-pods",
            "does not drop all capabilities",
        ),
        (lambda m: pod(m).update(hostPID=True), "no-privileged-pods", "hostPID is true"),
        (
            lambda m: (m["metadata"].update(name="other"), pod(m).update(hostNetwork=True)),
            "no-host-access",
            "hostNetwork is true",
        ),
        (
            lambda m: pod(m)["volumes"].append({"name": "root", "hostPath": {"path": "/"}}),
            "no-host-access",
            "volume root: hostPath '/'",
        ),
        (lambda m: pod(m).pop("securityContext"), "no-host-access", "runAsNonRoot is not true"),
        (lambda m: container(m).pop("resources"), "requests-and-limits", "no cpu in resources.requests"),
        (
            lambda m: container(m)["resources"]["limits"].pop("memory"),
            "requests-and-limits",
            "no memory in resources.limits",
        ),
        (lambda m: container(m).pop("livenessProbe"), "liveness-and-readiness-probes", "no livenessProbe"),
        (lambda m: m["metadata"].pop("labels"), "project-labels", "metadata has no label app"),
        (
            lambda m: m["spec"]["template"]["metadata"]["labels"].pop("component"),
            "project-labels",
            "the pod's metadata has no label component",
        ),
    ],
)
def test_the_error_names_the_object_that_breaks_a_rule(spoil: Any, rule: str, text: str) -> None:
    manifest = deployment()
    spoil(manifest)
    found = broken(manifest)
    assert list(found) == [rule]
    assert text in " ".join(found[rule])


def test_the_mps_daemon_may_add_only_the_capabilities_that_it_needs() -> None:
    manifest = deployment()
    manifest["metadata"]["name"] = "gpushare-mps"
    capabilities = {"drop": ["ALL"], "add": ["SYS_ADMIN", "SETUID", "SETGID"]}
    container(manifest)["securityContext"]["capabilities"] = capabilities
    assert not broken(manifest)
    capabilities["add"].append("NET_ADMIN")
    assert list(broken(manifest)) == ["no-privileged-pods"]


def test_init_containers_are_checked_too() -> None:
    manifest = deployment()
    pod(manifest)["initContainers"] = [container(manifest) | {"image": "a"}]
    assert list(broken(manifest)) == ["pinned-images"]


@pytest.fixture(scope="module")
def pack() -> Iterator[Any]:
    if not PYTHON.exists():
        pytest.skip("the policy pack has a separate venv: uv sync --directory policy")
    process = subprocess.Popen(  # noqa: S603 - our own program
        # Python would buffer the line with the port, because it writes to a pipe.
        [PYTHON, "-u", ROOT / "policy", "127.0.0.1:1", ROOT / "policy"],
        stdout=subprocess.PIPE,
        cwd="/",
    )
    try:
        assert process.stdout is not None
        with grpc.insecure_channel(f"127.0.0.1:{int(process.stdout.readline())}") as channel:
            yield analyzer_pb2_grpc.AnalyzerStub(channel)
    finally:
        process.terminate()
        process.communicate(timeout=DEADLINE_S)


def test_the_pack_publishes_every_rule_as_mandatory(pack: Any) -> None:
    info = pack.GetAnalyzerInfo(Empty(), timeout=DEADLINE_S)
    mandatory = analyzer_pb2.MANDATORY
    assert {each.name: each.enforcementLevel for each in info.policies} == dict.fromkeys(RULES, mandatory)


def test_the_pack_names_the_object_and_the_rule(pack: Any) -> None:
    manifest = deployment()
    container(manifest)["image"] = "example.com/a:latest"
    for inputs, expected in ((deployment(), []), (manifest, ["pinned-images"])):
        properties = struct_pb2.Struct()
        json_format.ParseDict(json.loads(json.dumps(inputs)), properties)
        request = analyzer_pb2.AnalyzeRequest(
            type="kubernetes:apps/v1:Deployment",
            name="gpushare-extender",
            urn="urn:pulumi:s::p::kubernetes:apps/v1:Deployment::gpushare-extender",
            properties=properties,
        )
        found = pack.Analyze(request, timeout=DEADLINE_S).diagnostics
        assert [each.policyName for each in found] == expected
        assert all("gpushare-extender" in each.message for each in found)


@pytest.mark.parametrize(
    ("packs", "flags"),
    [
        ((), "--policy-pack=policy "),
        (("POLICY_PACKS=policy ../ours",), "--policy-pack=policy --policy-pack=../ours "),
    ],
    ids=["default", "with others"],
)
@pytest.mark.parametrize("target", ["preview", "up"])
def test_make_applies_the_pack(target: str, packs: tuple[str, ...], flags: str) -> None:
    argv = ["make", "--dry-run", "--no-print-directory", target, "STACK=x", *packs]
    planned = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own file
    assert flags in planned
