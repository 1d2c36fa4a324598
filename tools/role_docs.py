"""Generates the README of each role from its ``meta/argument_specs.yml``: ``make generate``."""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

ROLES: Final = Path(__file__).parents[1] / "ansible/roles"
_SPECS: Final = "meta/argument_specs.yml"
_MARKUP: Final = re.compile(r"\b[BCEIOV]\(([^)]*)\)")
_HEADER: Final = "<!-- Generated from meta/argument_specs.yml by `make generate`; change it there. -->"

Spec = Mapping[str, Any]


def roles() -> list[Path]:
    """Return the folders of all roles."""
    return sorted(path for path in ROLES.iterdir() if path.is_dir())


def specs(role: Path) -> dict[str, Spec]:
    """Return the specification of each entry point of a role."""
    document = yaml.safe_load((role / _SPECS).read_text())
    found: dict[str, Spec] = document["argument_specs"]
    return found


def readme(role: Path) -> str:
    """Return the text of a role's README."""
    parts = [_HEADER, f"# gpushare.nodes.{role.name}", *_entry_points(specs(role))]
    return "\n\n".join(parts) + "\n"


def _entry_points(found: Mapping[str, Spec]) -> Iterator[str]:
    for name, spec in found.items():
        if name != "main":
            yield f"## `tasks_from: {name}`"
        yield _plain(spec["short_description"])
        yield from map(_plain, _texts(spec.get("description", ())))
        if options := spec.get("options"):
            rows = [_row(option, each) for option, each in _flat(options)]
            yield "\n".join(["| option | type | default | description |", "| --- | --- | --- | --- |", *rows])


def _flat(options: Mapping[str, Spec], prefix: str = "") -> Iterator[tuple[str, Spec]]:
    """Yield options and nested options, named ``outer.inner``."""
    for name, each in options.items():
        yield f"{prefix}{name}", each
        yield from _flat(each.get("options", {}), f"{prefix}{name}.")


def _row(name: str, option: Spec) -> str:
    kind = option.get("type", "str")
    if "elements" in option:
        kind = f"{kind} of {option['elements']}"
    text = " ".join(map(_plain, _texts(option.get("description", ()))))
    if choices := option.get("choices"):
        text = f"{text} One of {', '.join(f'`{each}`' for each in choices)}."
    cells = [f"`{name}`", kind, _default(option), text]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(option: Spec) -> str:
    if option.get("required"):
        return "required"
    return f"`{_value(option['default'])}`" if "default" in option else ""


def _value(value: Any) -> str:
    dumped: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return dumped.removesuffix("\n").removesuffix("\n...")


def _texts(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _plain(text: str) -> str:
    return " ".join(_MARKUP.sub(r"`\1`", text).split()).removesuffix(".") + "."


def main() -> None:
    """Write the README of every role; the exit status is 1 if a specification cannot be read."""
    argparse.ArgumentParser(prog="python -m tools.role_docs", description=__doc__).parse_args()
    for role in roles():
        try:
            text = readme(role)
        except OSError as error:
            sys.exit(f"role_docs: {role / _SPECS}: {error.strerror}")
        except yaml.YAMLError as error:
            sys.exit(f"role_docs: {role / _SPECS}: {error}")
        except KeyError as error:
            sys.exit(f"role_docs: {role / _SPECS}: {error} is missing")
        (role / "README.md").write_text(text)


if __name__ == "__main__":
    main()
