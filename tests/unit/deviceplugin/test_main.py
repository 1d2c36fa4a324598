from pathlib import Path

import pytest
from click.testing import CliRunner

from gpushare.deviceplugin.derived import card_settings, kubelet_access, response_settings
from gpushare.deviceplugin.main import check, command
from gpushare.deviceplugin.settings import AgentSettings
from gpushare.errors import ConfigError
from gpushare.isolation.layout import IsolationDirs
from gpushare.model.options import DeviceListChoice, MemoryUnit
from tests.support.builders.settings import parsed

TLS = ["--client-cert=/c", "--client-key=/k"]


def settings(*arguments: str, node: str | None = "node-a") -> AgentSettings:
    named = [f"--node-name={node}"] if node else []
    found = parsed(command, AgentSettings, *named, *arguments)
    check(found)
    return found


@pytest.fixture(autouse=True)
def without_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NODE_NAME", "KUBECONFIG", "LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)


def test_the_flags_of_the_aliyun_manifest_are_parsed() -> None:
    found = settings("-logtostderr", "--v=9", "--memory-unit=GiB")
    assert (found.level, found.memory_unit) == ("debug", MemoryUnit.GIB)


@pytest.mark.parametrize(
    "text", ["-memory-unit=MiB", "--memory-unit=MiB", "-memory-unit MiB", "--memory-unit MiB"]
)
def test_flags_have_one_dash_or_two(text: str) -> None:
    assert settings(*text.split()).memory_unit is MemoryUnit.MIB


@pytest.mark.parametrize(
    ("flag", "asked"),
    [
        ("--query-kubelet", True),
        ("-query-kubelet=true", True),
        ("--query-kubelet=false", False),
        ("--mps", False),
    ],
)
def test_booleans_are_parsed_as_in_go(flag: str, asked: bool) -> None:  # noqa: FBT001
    assert (kubelet_access(settings(flag)) is not None) == asked


def test_the_isolation_directories_have_defaults() -> None:
    assert response_settings(settings()).folders == IsolationDirs()
    found = settings("--isolation-libraries=/a", "--isolation-state=/b")
    assert response_settings(found).folders == IsolationDirs(Path("/a"), Path("/b"))


def test_an_unknown_unit_is_gib_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert settings("--memory-unit=TiB").memory_unit is MemoryUnit.GIB
    assert "--memory-unit='TiB' is not GiB or MiB" in capsys.readouterr().err


def test_a_missing_node_name_is_an_error_with_a_hint() -> None:
    with pytest.raises(ConfigError, match=r"NODE_NAME is not set: set it from spec\.nodeName"):
        settings(node=None)


def test_the_node_name_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", "node-b")
    assert settings(node=None).node_name == "node-b"


def test_the_record_is_below_the_device_plugin_directory_by_default() -> None:
    assert settings().state == Path("/var/lib/kubelet/device-plugins/gpushare")
    assert settings("--device-plugin-folder=/x").state == Path("/x/gpushare")


def test_the_agent_decides_how_gpus_are_passed_and_names_them_by_uuid_by_default() -> None:
    found = settings()
    assert found.device_list_strategy is DeviceListChoice.AUTO
    assert found.cdi_folders == (Path("/etc/cdi"), Path("/var/run/cdi"))
    assert not response_settings(found).by_index


def test_folders_of_cdi_specifications_replace_the_defaults() -> None:
    found = settings("--cdi-folder=/var/cdi/static", "--cdi-folder=/var/cdi/dynamic")
    assert found.cdi_folders == (Path("/var/cdi/static"), Path("/var/cdi/dynamic"))


def test_the_kubelets_certificate_is_verified_for_this_node() -> None:
    access = kubelet_access(settings("--query-kubelet"))
    assert access
    assert (access.address, access.port, access.server_name) == ("127.0.0.1", 10250, "node-a")
    assert not access.insecure
    assert access.token_file


def test_the_kubelet_flags_of_the_aliyun_plugin_are_parsed() -> None:
    found = settings(
        "--query-kubelet", "--kubelet-address=10.0.0.1", "--kubelet-port=10255", "--timeout=3", *TLS
    )
    access = kubelet_access(found)
    assert access
    assert (access.address, access.port, access.timeout_s, access.server_name) == ("10.0.0.1", 10255, 3.0, "")
    assert (access.client_cert, access.client_key, access.token_file) == (Path("/c"), Path("/k"), None)


def test_a_certificate_without_its_key_is_an_error() -> None:
    with pytest.raises(ConfigError, match="--client-cert and --client-key must be set together"):
        settings("--query-kubelet", "--client-cert=/c")


def test_xids_must_be_numbers() -> None:
    with pytest.raises(ConfigError, match="'x' is not a number"):
        settings("--ignored-xids=31,x")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[]"])
def test_a_kubeconfig_that_cannot_be_read_ends_the_program_with_2_and_one_line(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    flags = ["--node-name=n", f"--device-plugin-folder={tmp_path}", f"--kubeconfig={path}", "--ops-port=0"]
    ended = CliRunner().invoke(command, flags)
    assert ended.exit_code == 2
    assert ended.stderr.startswith(f"gpushare device-plugin: kubeconfig {path}: ")
    assert len(ended.stderr.splitlines()) == 1


def test_nvml_is_in_the_library_path_by_default() -> None:
    assert settings().driver_root is None
    assert card_settings(settings()).unified_mib is None
    assert card_settings(settings("--unified-memory-mib=65536")).unified_mib == 65536
    assert settings("--driver-root=/run/nvidia/driver").driver_root == Path("/run/nvidia/driver")
