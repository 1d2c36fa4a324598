"""Where the role kubelet_tuning asks the kubelet for its health after a change of settings."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ansible.cores import CORES, Ended, part_of, play, printed

RESERVE = {"kubelet_tuning_kube_reserved": {"cpu": "1"}}


def tune(folder: Path, core: str, config: dict[str, Any], /, *more: dict[str, Any], **changes: Any) -> Ended:
    (folder / "config.yaml").write_text(yaml.safe_dump({"kind": "KubeletConfiguration", **config}))
    settings = {
        "kubelet_tuning_config_path": str(folder / "config.yaml"),
        "__kubelet_tuning_flag_files": [],
        "__kubelet_tuning_restart_file": f"{folder}/restart",
        **changes,
    }
    return play(core, folder, [part_of("kubelet_tuning", "preflight", public=True), *more], **settings)


@pytest.mark.parametrize(
    ("config", "url"),
    [
        ({}, "127.0.0.1:10248"),
        ({"healthzBindAddress": "", "healthzPort": None}, "127.0.0.1:10248"),
        ({"healthzBindAddress": "192.0.2.7", "healthzPort": 10300}, "192.0.2.7:10300"),
        ({"healthzBindAddress": "2001:db8::7"}, "[2001:db8::7]:10248"),
        ({"healthzBindAddress": "::1"}, "[::1]:10248"),
        ({"healthzBindAddress": "0.0.0.0"}, "127.0.0.1:10248"),  # noqa: S104 - in a file
        ({"healthzBindAddress": "::"}, "127.0.0.1:10248"),
    ],
)
def test_the_address_can_be_called(config: dict[str, Any], url: str, tmp_path: Path) -> None:
    show = {"ansible.builtin.debug": {"msg": "asks {{ __kubelet_tuning_health_url }}"}}
    done = tune(tmp_path, "2.19", config, show)
    assert f"asks http://{url}/healthz" in done.stdout, done.stdout


@pytest.mark.parametrize("core", CORES)
def test_a_kubelet_without_the_endpoint_is_refused_before_a_change(core: str, tmp_path: Path) -> None:
    done = tune(tmp_path, core, {"healthzPort": 0}, **RESERVE)
    assert done.returncode != 0
    text = printed(done)
    assert f"healthzPort of {tmp_path}/config.yaml is 0" in text
    assert "kubelet_tuning_restart" in text


def test_without_a_restart_the_endpoint_is_not_needed(tmp_path: Path) -> None:
    off = {"healthzPort": 0}
    assert tune(tmp_path, "2.19", off).returncode == 0
    assert tune(tmp_path, "2.19", off, kubelet_tuning_restart=False, **RESERVE).returncode == 0
    assert tune(tmp_path, "2.19", {**off, "kubeReserved": {"cpu": "1"}}, **RESERVE).returncode == 0


def test_a_restart_that_an_earlier_run_left_needs_it_too(tmp_path: Path) -> None:
    (tmp_path / "restart").write_text("changed\n")
    assert tune(tmp_path, "2.19", {"healthzPort": 0}).returncode != 0
