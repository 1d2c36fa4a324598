"""The callback plugin preloaded, which ansible.cfg of the checkout enables."""

from pathlib import Path

import pytest
import yaml

from tests.ansible.cores import CORES, run

LOADED = """
import sys
from ansible.plugins.lookup import LookupBase

class LookupModule(LookupBase):
    def run(self, terms, variables=None, **options):
        return [name in sys.modules for name in terms]
"""
MODULES = ["ansible_collections.gpushare.nodes.plugins.filter.by_role", "ansible.plugins.connection.ssh"]


@pytest.mark.parametrize("core", CORES)
def test_a_task_finds_the_filters_loaded(core: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loaded.py").write_text(LOADED)
    monkeypatch.setenv("ANSIBLE_LOOKUP_PLUGINS", str(tmp_path))
    text = "found {{ query('loaded', *modules) | map('string') | join(' ') }}"
    tasks = [{"ansible.builtin.debug": {"msg": text}, "vars": {"modules": MODULES}}]
    file = tmp_path / "play.yml"
    file.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    done = run(core, "--inventory=gpu-1,", file)
    assert "found True True" in done.stdout, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
