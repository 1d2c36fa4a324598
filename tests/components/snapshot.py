"""``python -m tests.components.snapshot``: writes the objects of the test stacks into ``snapshots``.

One file a kind; each document names the stacks that have exactly this object: nothing is there twice.
``order.yaml`` lists the objects of each stack, in the order in which they are applied. The name of a file of
``components/monitoring`` stands for its text.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from components.manifests import everything
from components.manifests.parts import Object
from components.render import Dumper
from components.stack import from_file, load
from tests.support.builders.stacks import FOLDER, ROOT, STACKS

SNAPSHOTS: Final = FOLDER / "snapshots"
_MONITORING: Final = "components/monitoring"
_ONE_LINE: Final = 90
"""Characters of a list or mapping that is written on one line; a longer one has a line for each value."""


def files() -> dict[str, str]:
    """File of ``snapshots`` → its text."""
    objects = {stack: everything(load(from_file(path))) for stack, path in STACKS.items()}
    order = {stack: [_identity(each) for each in made] for stack, made in objects.items()}
    kinds = sorted({each["kind"] for made in objects.values() for each in made})
    return {
        "order.yaml": _dump(order),
        **{f"{kind.lower()}.yaml": "".join(_documents(kind, objects)) for kind in kinds},
    }


def _documents(kind: str, objects: Mapping[str, list[Object]]) -> Iterator[str]:
    """The different objects of a kind, those with the same name one after the other."""
    stacks: dict[tuple[str, str], list[str]] = {}
    sources = dict(_sources())
    for stack, made in objects.items():
        for each in made:
            if each["kind"] == kind:
                text = _dump(_with_names(each, sources))
                stacks.setdefault((_identity(each), text), []).append(stack)
    for (_, text), names in sorted(stacks.items(), key=lambda item: item[0][0]):
        yield f"--- # {', '.join(names)}\n{text}"


def _identity(made: Object) -> str:
    named = made["metadata"]
    return " ".join([made["kind"], *([named["namespace"]] if "namespace" in named else []), named["name"]])


def _sources() -> Iterator[tuple[str, str]]:
    """Content of the files that stacks take as they are, whole or by group of rules → its name."""
    for path in sorted((ROOT / _MONITORING).rglob("*")):
        if path.is_file():
            text, name = path.read_text(), path.relative_to(ROOT).as_posix()
            yield _key(text), f"<{name}>"
            for group in (yaml.safe_load(text) or {}).get("groups", []) if path.suffix == ".yaml" else []:
                yield _key(group), f"<{group['name']} of {name}>"


def _key(content: Any) -> str:
    return json.dumps(content, sort_keys=True)


def _with_names(value: Any, sources: Mapping[str, str]) -> Any:
    """The value, with names of files in place of their content."""
    if (name := sources.get(_key(value))) is not None:
        return name
    if isinstance(value, dict):
        return {key: _with_names(each, sources) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_names(each, sources) for each in value]
    return value


def _dump(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, default_flow_style=None, sort_keys=False, width=110)


class _Dumper(Dumper):
    """Writes short lists and mappings without children on one line."""

    def represent_sequence(self, *arguments: Any) -> yaml.SequenceNode:
        node = super().represent_sequence(*arguments)
        node.flow_style = node.flow_style and len(str(arguments[1])) <= _ONE_LINE
        return node

    def represent_mapping(self, *arguments: Any) -> yaml.MappingNode:
        node = super().represent_mapping(*arguments)
        node.flow_style = node.flow_style and len(str(arguments[1])) <= _ONE_LINE
        return node


def main() -> None:
    """Replace the files."""
    SNAPSHOTS.mkdir(exist_ok=True)
    for path in SNAPSHOTS.iterdir():
        path.unlink()
    for name, text in files().items():
        (SNAPSHOTS / name).write_text(text)


if __name__ == "__main__":
    main()
