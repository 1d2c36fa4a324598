"""Home folders, certificates, audit log, scheduler and simulated nodes; not their processes."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from devkit.errors import DevkitError
from gpushare import contract
from gpushare.errors import ConfigError
from testbed.__main__ import cli
from testbed.control_plane import audit
from testbed.control_plane.home import Home
from testbed.control_plane.nodes import SimGpu, SimNode, card_list, node_object
from testbed.control_plane.pki import Authority
from testbed.control_plane.scheduler import SchedulerSpec
from testbed.control_plane.stages import read_stages

NAME = "cn-zhangjiakou.192.168.3.184"


def test_the_folder_is_emptied_and_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSHARE_CACHE", str(tmp_path))
    left = tmp_path / "beds" / "one" / "left"
    left.mkdir(parents=True)
    home = Home.take("one")
    assert not left.exists()
    with pytest.raises(DevkitError, match="'one' is in use"):
        Home.take("one")
    home.release()
    assert home.folder.exists()


def test_an_unnamed_testbed_is_removed_on_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSHARE_CACHE", str(tmp_path))
    home = Home.take(None)
    home.release()
    assert list((tmp_path / "beds").iterdir()) == []


def test_a_start_removes_unnamed_testbeds_without_an_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUSHARE_CACHE", str(tmp_path))
    abandoned = tmp_path / "beds" / "tmp-abandoned"
    abandoned.mkdir(parents=True)
    living = Home.take(None)
    assert not abandoned.exists()
    Home.take("other").release()
    assert living.folder.exists()
    living.release()


def test_down_of_an_unknown_testbed_is_an_error_unless_it_may_be_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUSHARE_CACHE", str(tmp_path))
    command = ["down", "--name=other"]
    with pytest.raises(ConfigError, match="there is no testbed 'other'"):
        CliRunner().invoke(cli, command, catch_exceptions=False)
    done = CliRunner().invoke(cli, [*command, "--ignore-not-found"], catch_exceptions=False)
    assert (done.exit_code, done.output) == (0, "stopped: nothing was running\n")


def test_a_name_that_is_too_long_for_a_certificate_is_rejected() -> None:
    with pytest.raises(ConfigError, match="has 65 characters"):
        Authority.create("ca").client("x" * 65)


def test_an_incomplete_line_of_the_audit_log_is_ignored(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    log.write_text('{"verb": "create"}\n{"verb": "pat')
    assert list(audit.read(log)) == [{"verb": "create"}]


@pytest.mark.parametrize("text", ["a: [", "just words"])
def test_an_invalid_scheduler_configuration_is_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match="the scheduler configuration is not"):
        SchedulerSpec(config=text).text(Path("/bed/kube-scheduler.kubeconfig"))


def test_generated_uuids_are_stable_and_differ_by_node_and_index() -> None:
    uuids = [card["uuid"] for name in ("a", "b") for card in card_list(SimNode(name, [SimGpu(), SimGpu()]))]
    assert len(set(uuids)) == 4
    assert uuids[0] == card_list(SimNode("a", [SimGpu()]))[0]["uuid"]
    assert all(each.startswith("GPU-") for each in uuids)


def test_a_node_of_the_aliyun_plugin_has_the_label_but_no_list_of_gpus() -> None:
    metadata = node_object(SimNode(NAME, [SimGpu()], annotate_cards=False))["metadata"]
    assert metadata["labels"][contract.LABEL_GPUSHARE] == "true"
    assert contract.ANN_CARDS not in metadata["annotations"]


def test_missing_stage_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"node-initialize\.yaml.*TESTBED_KWOK_STAGES"):
        read_stages(tmp_path)
