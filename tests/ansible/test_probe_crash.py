"""The role scheduler_extender if the module that calls the extender crashes."""

import json
from pathlib import Path

import pytest
import yaml

from tests.ansible.cores import CORES, run

CRASHED = {"item": "http://192.0.2.1:32766", "failed": True, "exception": "Traceback …"}
"""A result of ansible-core 2.19, which has no message."""


@pytest.mark.parametrize("core", CORES)
def test_a_crashed_probe_is_reported_as_no_answer(core: str, tmp_path: Path) -> None:
    settings = {
        "scheduler_extender_probe": "before",
        "scheduler_extender_urls": [CRASHED["item"]],
        "__scheduler_extender_tls": {},
        # Wins over the result of the task.
        "__scheduler_extender_probed": {"results": [CRASHED]},
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
    }
    role = {"name": "gpushare.nodes.scheduler_extender", "tasks_from": "probe"}
    file = tmp_path / "play.yml"
    tasks = [{"ansible.builtin.include_role": role}]
    file.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    done = run(
        core, "--connection=local", "--inventory=localhost,", f"--extra-vars={json.dumps(settings)}", file
    )
    assert done.returncode != 0
    text = " ".join(done.stdout.split())
    assert f"; {CRASHED['item']}: no answer" in text
    assert "no extender answers at any of scheduler_extender_urls" in text
