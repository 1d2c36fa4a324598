"""The pages of the platforms: short, and honest about what has run there."""

import re
from pathlib import Path

import pytest
import yaml

from components.stack import load
from release.bundle import DEFAULTS
from tests.support.builders.stacks import DIGEST

DOCS = Path(__file__).parents[3] / "docs"
PAGES = sorted((DOCS / "how-to/providers").glob("*.md"))
NAMES = ("aks", "eks", "gke", "k3s-rke2", "kind", "kubeadm", "openshift")
VALUES = yaml.safe_load((DOCS.parent / "charts/gpushare/values.yaml").read_text())
OTHERS = ("driver.", "toolkit.", "cdi.", "hostPaths.")
"""Values of the chart of NVIDIA's operator."""


def test_every_platform_has_a_page_and_install_links_it() -> None:
    assert tuple(page.stem for page in PAGES) == NAMES
    install = (DOCS / "how-to/install.md").read_text()
    assert all(f"(providers/{name}.md)" in install for name in NAMES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_read_in_a_minute(page: Path) -> None:
    assert 15 <= len(page.read_text().splitlines()) <= 40


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_what_has_not_run_there_and_what_was_read(page: Path) -> None:
    text = page.read_text()
    assert re.search(r"^(\*\*Not run|Nothing of gpushare has run)|\*\*Not run\*\*", text, re.MULTILINE)
    assert re.search(r"^Read on 20\d\d-\d\d-\d\d: ", text, re.MULTILINE) or page.stem == "kubeadm"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_values_of_a_page_are_those_of_the_chart(page: Path) -> None:
    text = page.read_text()
    keys = re.findall(r"--set(?: |\s+)([\w.]+)=", re.sub(r"\\\n\s*|\n\s+", " ", text))
    for key in keys:
        found = VALUES
        if key.startswith(OTHERS) or ("gpu-operator" in text and key == "devicePlugin.enabled"):
            continue
        for part in key.split("."):
            assert part in found, key
            found = found[part]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.stem != "openshift"], ids=lambda page: page.stem
)
def test_a_page_labels_the_nodes_that_the_defaults_select(page: Path) -> None:
    images = dict.fromkeys(
        ("extender", "device-plugin", "exporter", "isolation", "metrics-api", "cli"), DIGEST
    )
    (pool,) = load({**DEFAULTS, "images": images}).device_plugins
    ((key, value),) = pool.node_selector.items()
    assert f"{key}={value}" in page.read_text()
