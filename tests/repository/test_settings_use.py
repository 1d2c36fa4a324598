"""Every setting of a service is used: a flag without a use fails here."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders.services import SERVICES

ROOT = Path(__file__).parents[2]


def names_read(tree: ast.AST, owner: str) -> set[str]:
    """Attributes that are read from a variable or an attribute of this name."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and _name(node.value).lstrip("_") == owner
    }


def _name(value: ast.expr) -> str:
    if isinstance(value, ast.Name):
        return value.id
    return value.attr if isinstance(value, ast.Attribute) else ""


def derived(tree: ast.Module, kind: str) -> Iterator[tuple[str, set[str]]]:
    """Properties of the settings and functions beside them, with the settings that each reads."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == kind:
            yield from (
                (each.name, names_read(each, "self"))
                for each in node.body
                if isinstance(each, ast.FunctionDef)
            )
        if isinstance(node, ast.FunctionDef):
            yield node.name, names_read(node, "settings")


def used_settings(kind: type[Any]) -> set[str]:
    """The settings that the modules of the service read, themselves or by what is derived from them.

    A check does not use a setting: it would refuse values that nothing reads.
    """
    module = ROOT / f"{kind.__module__.replace('.', '/')}.py"
    others = [each for each in module.parent.rglob("*.py") if each != module]
    trees = [ast.parse(each.read_text()) for each in others]
    found = set[str]().union(*(names_read(tree, "settings") for tree in trees))
    called = {
        node.func.id
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    for name, read in derived(ast.parse(module.read_text()), kind.__name__):
        if name in found or (name in called and not name.startswith("check")):
            found |= read
    return found


@pytest.mark.parametrize("kind", [kind for _, kind in SERVICES.values()])
def test_every_setting_is_used_in_its_service(kind: type[Any]) -> None:
    # How it logs is set up by ``runtime.flags.run_daemon`` for all of them.
    unused = {each.name for each in fields(kind)} - used_settings(kind) - {"log_level"}
    assert unused == set()
