"""The import contracts of ``pyproject.toml`` are kept, and each rejects a forbidden import."""

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final

import grimp
import pytest
from importlinter import Contract, api
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract
from importlinter.contracts.protected import ProtectedContract

ROOT: Final = Path(__file__).parents[2]
CLASSES: Final[dict[str, type[Any]]] = {
    "forbidden": ForbiddenContract,
    "layers": LayersContract,
    "protected": ProtectedContract,
}
PLUGINS: Final = "ansible_collections.gpushare.nodes.plugins"
PURE: Final = {
    *("bisect", "csv", "html", "statistics"),
    *("collections", "dataclasses", "difflib", "enum", "fractions", "functools", "hashlib", "heapq"),
    *("immutables", "itertools", "json", "math", "msgspec", "posixpath", "re", "struct", "types", "typing"),
    "yaml",
}
"""The external modules that the core uses. They do no I/O, and read no clock; posixpath: ``normpath``."""


@cache
def configuration() -> dict[str, Any]:
    return dict(api.read_configuration(str(ROOT / "pyproject.toml")))


def options(name: str) -> dict[str, Any]:
    return next(each for each in configuration()["contracts_options"] if each["id"] == name)


PLANTED: Final = [
    ("layers", "gpushare.model.planted", "gpushare.scheduling.fitting"),
    ("layers", "gpushare.adapters.planted", "gpushare.extender.binder"),
    ("layers", "gpushare.exporter.planted", "gpushare.deviceplugin.metrics"),
    ("layers", "gpushare.scheduling.planted", "gpushare.adapters.cgroups"),
    ("layers", "gpushare.board.planted", "gpushare.cli.main"),
    ("layers", "gpushare.overview.planted", "gpushare.board.routes"),
    ("layers", "gpushare.package_without_layer", "gpushare.contract"),
    ("commands", "gpushare.cli.doctor.planted", "gpushare.cli.explain.collect"),
    ("commands", "gpushare.cli.lib.planted", "gpushare.cli.main"),
    ("commands", "gpushare.cli.command_without_layer", "gpushare.contract"),
    ("tools", "gpushare.cli.lib.planted", "gpushare.extender.settings"),
    *(("pure", "gpushare.scheduling.planted", module) for module in options("pure")["forbidden_modules"]),
    ("pure", "gpushare.model.planted", "time"),
    ("pure", "gpushare.kubescheduler.planted", "subprocess"),
    ("pure", "gpushare.deviceplugin.core.planted", "asyncio"),
    ("pure", "gpushare.deviceplugin.core.planted", "gpushare.adapters.cgroups"),
    ("pure", "gpushare.extender.core.planted", "os"),
    ("kubernetes", "gpushare.extender.planted", "kubernetes"),
    ("kubernetes", "gpushare.adapters.planted", "kubernetes"),
    ("kubernetes", "gpushare.cli.planted", "kubernetes"),
    ("kubernetes", "components.planted", "kubernetes"),
    ("kubernetes", "testbed.planted", "kubernetes"),
    ("grpc", "gpushare.deviceplugin.node.planted", "grpc"),
    ("grpc", "gpushare.exporter.planted", "grpc"),
    ("grpc", "gpushare.adapters.kube.planted", "grpc"),
    ("pynvml", "gpushare.exporter.planted", "pynvml"),
    ("pynvml", "gpushare.mpsd.planted", "pynvml"),
    ("pynvml", "testbed.planted", "pynvml"),
    ("cryptography", "gpushare.cli.planted", "cryptography"),
    ("pulumi", "components.planted", "pulumi"),
    ("pulumi", "gpushare.cli.planted", "pulumi"),
    ("product", "gpushare.cli.planted", "devkit.errors"),
    ("product", "components.planted", "release.recipe"),
    ("product", "gpushare.planted", "tools.role_docs"),
    ("product", "gpushare.planted", "tests.support.fixtures.daemons"),
    ("workshop", "release.planted", "testbed.kubelets"),
    ("workshop", "devkit.planted", "release.recipe"),
    ("tests", "testbed.planted", "tests.support.fixtures.daemons"),
    ("tests", "release.planted", "tests.support.fixtures.daemons"),
    ("tests", "tools.planted", "tests.support.fixtures.daemons"),
    ("tests", f"{PLUGINS}.filter.planted", "tests.support.fixtures.daemons"),
    ("components", "components.planted", "gpushare.extender.settings"),
    ("components", "components.planted", "gpushare.installer.settings"),
    ("components", "components.planted", "gpushare.mpsd.settings"),
    ("components", "components.planted", "gpushare.__main__"),
    ("settings", "gpushare.exporter.settings", "gpushare.adapters.cgroups"),
    ("settings", "gpushare.metricsapi.settings", "gpushare.monitoring.catalogue"),
    ("standalone", f"{PLUGINS}.filter.planted", "gpushare.contract"),
    ("standalone", f"{PLUGINS}.modules.planted", "devkit.errors"),
    ("standalone", "policy.planted", "gpushare.contract"),
]


@cache
def imports() -> grimp.ImportGraph:
    roots = configuration()["session_options"]["root_packages"]
    return grimp.build_graph(*roots, include_external_packages=True, cache_dir=None)


def contract(name: str) -> Contract:
    own = options(name)
    made: Contract = CLASSES[own["type"]](own["name"], configuration()["session_options"], own)
    return made


def planted(importer: str, imported: str) -> grimp.ImportGraph:
    """The imports of the tree with a module, and the packages it is in, that imports another."""
    graph = deepcopy(imports())
    parts = importer.split(".")
    for count in range(1, len(parts) + 1):
        graph.add_module(".".join(parts[:count]))
    if imported not in graph.modules:
        graph.add_module(imported, is_squashed=True)
    graph.add_import(importer=importer, imported=imported, line_number=1, line_contents="")
    return graph


@pytest.mark.parametrize("name", sorted({name for name, *_ in PLANTED}))
def test_the_tree_complies_with_each_contract(name: str) -> None:
    assert contract(name).check(deepcopy(imports()), verbose=False).kept


def test_every_contract_has_a_planted_violation() -> None:
    assert {each["id"] for each in configuration()["contracts_options"]} == {name for name, *_ in PLANTED}


def test_every_external_module_of_the_core_is_known_to_be_pure() -> None:
    core = options("pure")
    graph = imports()
    modules = {
        module
        for source in core["source_modules"]
        for expression in (source, f"{source}.**")
        for module in graph.find_matching_modules(expression)
    }
    external = {
        imported
        for module in modules
        for imported in graph.find_modules_directly_imported_by(module)
        if graph.is_module_squashed(imported) and f"{module} -> {imported}" not in core["ignore_imports"]
    }
    assert "gpushare.deviceplugin.core.matching" in modules
    assert external <= PURE
    assert not PURE & set(core["forbidden_modules"])


@pytest.mark.parametrize(("name", "importer", "imported"), PLANTED)
def test_a_planted_import_breaks_the_contract(name: str, importer: str, imported: str) -> None:
    assert not contract(name).check(planted(importer, imported), verbose=False).kept


@pytest.mark.parametrize(
    ("name", "importer", "imported"),
    [
        ("grpc", "gpushare.deviceplugin.kubelet.planted", "grpc"),
        ("pynvml", "gpushare.adapters.nvml.planted", "pynvml"),
        ("components", "components.planted", "gpushare.model.modes"),
        ("standalone", f"{PLUGINS}.filter.planted", f"{PLUGINS}.plugin_utils.gpushare.contract"),
    ],
)
def test_an_import_by_an_allowed_module_passes(name: str, importer: str, imported: str) -> None:
    assert contract(name).check(planted(importer, imported), verbose=False).kept


def test_the_contracts_cover_all_python_packages_of_the_checkout() -> None:
    roots = set(configuration()["session_options"]["root_packages"])
    found = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert found <= roots
    assert {"ansible_collections", "tests"} <= roots
