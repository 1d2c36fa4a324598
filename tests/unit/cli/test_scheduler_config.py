import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from gpushare.cli.scheduler_config import command
from gpushare.errors import ConfigError
from gpushare.kubescheduler.config import (
    ExtenderConfig,
    Format,
    SchedulerOptions,
    Tls,
    minimal,
    parse_version,
    render,
)


def printed(*arguments: str) -> Any:
    result = CliRunner().invoke(command, ["-o", "json", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return json.loads(result.stdout)


def test_it_prints_the_output_of_the_renderer() -> None:
    assert printed("--kubernetes-version", "1.36") == render(ExtenderConfig(), parse_version("1.36"))


def test_yaml_has_the_same_content() -> None:
    result = CliRunner().invoke(command, ["--kubernetes-version", "1.36"])
    assert yaml.safe_load(result.stdout) == printed("--kubernetes-version", "1.36")


@pytest.mark.parametrize("version", ["1.16", "1.22"])
def test_minimal_is_a_policy_where_there_are_any(version: str) -> None:
    expected = render(minimal(), parse_version(version), form=Format.POLICY)
    assert printed("--kubernetes-version", version, "--minimal") == expected


def test_minimal_is_a_component_config_where_there_are_none() -> None:
    document = printed("--kubernetes-version", "1.23", "--minimal")
    assert document["apiVersion"] == "kubescheduler.config.k8s.io/v1beta3"
    assert "prioritizeVerb" not in document["extenders"][0]


def test_a_policy_comes_with_a_note_about_unsupported_settings() -> None:
    result = CliRunner().invoke(command, ["--kubernetes-version", "1.16"])
    assert "percentageOfNodesToScore" in result.stderr
    assert CliRunner().invoke(command, ["--kubernetes-version", "1.18"]).stderr == ""


def test_every_flag_arrives() -> None:
    flags = {
        "--kubernetes-version": "1.30",
        "--url": "https://ext:443/x",
        "--weight": "7",
        "--ca-file": "/ca",
        "--cert-file": "/crt",
        "--key-file": "/key",
        "--server-name": "ext",
        "--scheduler-name": "own",
        "--kubeconfig": "/kc",
        "--percentage-of-nodes": "50",
    }
    extender = ExtenderConfig("https://ext:443/x", weight=7, tls=Tls("/ca", "/crt", "/key", "ext"))
    options = SchedulerOptions("own", "/kc", percentage_of_nodes=50, leader_elect=False)
    arguments = [word for pair in flags.items() for word in pair]
    assert printed(*arguments, "--no-leader-elect") == render(
        extender, parse_version("1.30"), options=options
    )


def test_minimal_has_no_scores_to_weigh() -> None:
    result = CliRunner().invoke(command, ["--kubernetes-version", "1.36", "--minimal", "--weight", "5"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--minimal leaves out scores, so --weight has no effect: set one of them" in result.stderr


@pytest.mark.parametrize("name", ["A B", "own/scheduler", ""])
def test_a_scheduler_is_named_as_its_lease_can_be(name: str) -> None:
    result = CliRunner().invoke(command, ["--kubernetes-version", "1.36", "--scheduler-name", name])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{name!r} is not the name of a scheduler, such as gpushare-scheduler" in result.stderr


def test_minimal_takes_no_tls() -> None:
    with pytest.raises(ConfigError, match="--minimal uses plain HTTP"):
        printed("--kubernetes-version", "1.22", "--minimal", "--ca-file", "/ca")
