"""The files of the recipes keep the promises of their page: sizes, defaults, and nothing public."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpushare.contract import RESOURCE_MEM
from testbed.stories import T4

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "how-to" / "recipes.md").read_text()
FOLDER = ROOT / "examples" / "recipes"
FILES = sorted(FOLDER.rglob("*.yaml"))
PODS = [path for path in FILES if path.parent.name != "jupyterhub" and path.name != "queues.yaml"]
YEAR = re.compile(r"2026-\d\d-\d\d")


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


def containers(node: Any) -> Iterator[Mapping[str, Any]]:
    """Everything below a document that has resources, as containers and models of KServe do."""
    if isinstance(node, list):
        for each in node:
            yield from containers(each)
    if isinstance(node, dict):
        if "limits" in node.get("resources", {}):
            yield node
        for each in node.values():
            yield from containers(each)


def security_contexts(node: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(node, list):
        for each in node:
            yield from security_contexts(each)
    if isinstance(node, dict):
        yield from (node[key] for key in node if key == "securityContext")
        for each in node.values():
            yield from security_contexts(each)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_file_is_on_the_page_and_dates_its_facts(path: Path) -> None:
    assert f"../../{path.relative_to(ROOT)}" in PAGE
    header = path.read_text().partition("\n---\n" if "\n---\n" in path.read_text() else "\napiVersion")[0]
    assert YEAR.search(header), "the version or tag has no date"


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_nothing_is_public_and_no_file_has_a_password(path: Path) -> None:
    text = path.read_text()
    assert "LoadBalancer" not in text
    assert "NodePort" not in text
    assert "hostPath" not in text
    assert [each for each in documents(path) if each.get("kind") == "Secret"] == []
    assert not re.search(r"name: \S*(PASSWORD|TOKEN|KEY)\n\s+value:", text), "a value of a secret"


@pytest.mark.parametrize("path", PODS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_pods_run_without_root_and_without_privileges(path: Path) -> None:
    found = list(security_contexts(documents(path)))
    pods = [each for each in found if "runAsNonRoot" in each]
    assert pods
    assert all(each["seccompProfile"] == {"type": "RuntimeDefault"} for each in pods)
    for each in found:
        if each not in pods:
            assert each == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@pytest.mark.parametrize("path", PODS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_images_have_exact_tags(path: Path) -> None:
    for image in re.findall(r"image: (\S+)", path.read_text()):
        _, _, tag = image.partition(":")
        assert re.search(r"\d", tag), image


def budget(name: str) -> tuple[int, int, int]:
    """Units, limit on a T4 in MiB, and what vLLM takes of it."""
    (server,) = (
        each
        for each in documents(FOLDER / "vllm" / "vllm.yaml")
        if each["metadata"]["name"] == name and each["kind"] == "Deployment"
    )
    (container,) = containers(server)
    units = int(container["resources"]["limits"][RESOURCE_MEM])
    (fraction,) = (each.partition("=")[2] for each in container["args"] if "utilization" in each)
    limit = T4.mib * units // T4.units
    return units, limit, int(limit * float(fraction))


def test_the_two_servers_fill_a_t4_and_leave_room_for_their_contexts() -> None:
    budgets = [budget("chat"), budget("embeddings")]
    assert sum(units for units, _, _ in budgets) == T4.units
    for _, limit, taken in budgets:
        assert limit - taken > 518, "a context on an H100"


def test_the_table_of_the_page_has_these_numbers() -> None:
    (chat, embeddings) = (budget("chat"), budget("embeddings"))
    rows = {
        "`aliyun.com/gpu-mem`": (chat[0], embeddings[0]),
        "limit: what vLLM sees": (f"{chat[1]} MiB", f"{embeddings[1]} MiB"),
        "for weights, activations and KV cache": (f"{chat[2]} MiB", f"{embeddings[2]} MiB"),
        "left for the CUDA context, graphs and rounding": (
            f"{chat[1] - chat[2]} MiB",
            f"{embeddings[1] - embeddings[2]} MiB",
        ),
    }
    for name, (first, second) in rows.items():
        assert f"| {name} | {first} | {second} |" in PAGE
