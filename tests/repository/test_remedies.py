"""Commands that remedies name exist."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
SOURCES = [path for folder in ("gpushare", "components") for path in (ROOT / folder).rglob("*.py")]
PLAYBOOK = re.compile(r"ansible-playbook (?:-i \S+ )?([a-z_]+\.[a-z_]+)\.([a-z_]+)")


def test_playbooks_in_messages_are_those_of_the_collection() -> None:
    galaxy = yaml.safe_load((ROOT / "ansible/galaxy.yml").read_text())
    ours = f"{galaxy['namespace']}.{galaxy['name']}"
    named = {found for path in SOURCES for found in PLAYBOOK.findall(path.read_text())}
    assert named
    for collection, playbook in named:
        assert collection == ours
        assert (ROOT / "ansible/playbooks" / f"{playbook}.yml").exists()
