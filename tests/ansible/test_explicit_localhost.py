"""The role validate with an inventory that has localhost, with another Python than that of Ansible."""

from pathlib import Path

import pytest
import yaml

from tests.ansible.cores import CORES, run

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "a", "user": {}}],
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
}


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("entry", ["cluster", "probe"])
def test_the_cluster_is_read_with_the_python_of_ansible(entry: str, core: str, tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(KUBECONFIG))
    local = {"ansible_connection": "local"}
    hosts = {"gpu-1": local, "localhost": {**local, "ansible_python_interpreter": "/nowhere"}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
    settings = {"validate_kubeconfig": f"{tmp_path}/kubeconfig", "__validate_chosen_context": "a"}
    tasks = [
        {
            "ansible.builtin.include_role": {"name": "gpushare.nodes.validate", "tasks_from": entry},
            "vars": settings,
        },
        {"ansible.builtin.debug": {"msg": "{{ [__validate_nodes, __validate_probe] | string }}"}},
    ]
    play = {
        "hosts": "gpu-1",
        "gather_facts": False,
        "vars": {"__validate_nodes": {}, "__validate_probe": {}},
        "tasks": tasks,
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play]))
    done = run(core, f"--inventory={tmp_path}/hosts.yml", tmp_path / "play.yml")
    assert done.returncode == 0, done.stdout
    assert "/nowhere" not in done.stdout, done.stdout
