"""The commands and words that the docs show exist."""

import re
import shlex
from pathlib import Path

import click
import pytest

from components.render import command as render
from gpushare import contract
from gpushare.cli.board.command import board
from gpushare.cli.doctor.command import doctor
from gpushare.cli.migrate.command import migrate
from gpushare.cli.node_group.command import command as node_group
from gpushare.cli.recommend.command import recommend
from gpushare.cli.report.command import report
from gpushare.cli.scheduler_manifest import command as scheduler_manifest
from gpushare.cli.simulate.command import simulate
from gpushare.cli.top.command import top
from gpushare.deviceplugin.main import command as device_plugin
from gpushare.exporter.main import command as exporter
from gpushare.extender.main import command as extender
from gpushare.extender.webhook import command as webhook
from gpushare.installer.main import command as isolation
from gpushare.metricsapi.main import command as metrics_api
from gpushare.metricsapi.queries import DEFINITIONS
from gpushare.monitoring import catalogue
from gpushare.mpsd.main import command as mps
from tests.bench.extender import main as bench_extender
from tests.bench.models.__main__ import main as bench_models
from tests.bench.replay import main as bench_replay

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def shown(prefix: str) -> list[list[str]]:
    """Return the arguments of all commands in the documentation with this prefix."""
    lines = [line[2:] for page in PAGES for line in page.read_text().splitlines() if line.startswith("$ ")]
    return [
        shlex.split(line, comments=True)[len(prefix.split()) :] for line in lines if line.startswith(prefix)
    ]


@pytest.mark.parametrize("arguments", shown("gpushare extender"), ids=" ".join)
def test_an_extender_command_of_the_docs_is_valid(arguments: list[str]) -> None:
    extender.make_context("extender", list(arguments))


@pytest.mark.parametrize("arguments", shown("NODE_NAME=node-a gpushare device-plugin"), ids=" ".join)
def test_a_device_plugin_command_of_the_docs_is_valid(arguments: list[str]) -> None:
    device_plugin.make_context("device-plugin", list(arguments))


@pytest.mark.parametrize("arguments", shown("gpushare metrics-api"), ids=" ".join)
def test_a_metrics_api_command_of_the_docs_is_valid(arguments: list[str]) -> None:
    metrics_api.make_context("metrics-api", list(arguments))


@pytest.mark.parametrize("arguments", shown("gpushare isolation"), ids=" ".join)
def test_an_isolation_command_of_the_docs_is_valid(arguments: list[str]) -> None:
    verb, *flags = arguments
    isolation.commands[verb].make_context(verb, flags)


@pytest.mark.parametrize("arguments", shown("gpushare scheduler-config"), ids=" ".join)
def test_a_scheduler_config_command_of_the_docs_runs(arguments: list[str]) -> None:
    from click.testing import CliRunner  # noqa: PLC0415

    from gpushare.cli.scheduler_config import command  # noqa: PLC0415

    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    "command",
    [board, doctor, migrate, node_group, recommend, report, simulate],
    ids=lambda command: command.name,
)
def test_a_command_of_the_plugin_in_the_docs_is_valid(command: click.Command) -> None:
    for arguments in shown(f"kubectl gpushare {command.name}"):
        command.make_context(command.name, arguments)


@pytest.mark.parametrize("arguments", shown("make"), ids=" ".join)
def test_a_make_target_of_the_docs_exists(arguments: list[str]) -> None:
    folder, target = (arguments[1], arguments[2]) if arguments[0] == "-C" else ("", arguments[0])
    assert re.search(rf"^{target}:", (ROOT / folder / "Makefile").read_text(), re.MULTILINE)


def test_flags_in_the_docs_exist() -> None:
    named = {flag for page in PAGES for flag in re.findall(r"`(--[a-z][a-z-]+)", page.read_text())}
    groups = (*top.commands.values(), *isolation.commands.values(), *scheduler_manifest.commands.values())
    commands = (
        extender,
        device_plugin,
        exporter,
        metrics_api,
        mps,
        webhook,
        board,
        doctor,
        migrate,
        node_group,
        recommend,
        report,
        simulate,
        render,
        *groups,
    )
    parameters = [param for command in commands for param in command.params]
    known = {opt for param in parameters for opt in (*param.opts, *param.secondary_opts)}
    others = {
        "--nodes",
        "--format",
        "--minimal",
        "--watch",
        "--policy-config-file",
        "--name",
        "--skip-tags",
        "--limit",
        "--query",
        "--reset-then-reuse-values",
        "--reuse-values",
    }
    others |= {"--model", "--gpu-memory-utilization", "--cuda-memory-pool-byte-size", "--exit-on-error"}
    others |= {"--startup-taint", "--feature-gates", "--node-labels"}
    others |= {"--server-side", "--prune", "--applyset", "--force-conflicts"}
    others |= {"--ca-file", "--cert-file", "--key-file", "--experimental-watch-progress-notify-interval"}
    benches = (*bench_extender.params, *bench_models.params, *bench_replay.params)
    others |= {option for param in benches for option in param.opts}
    assert named - others <= known


def test_metrics_in_the_docs_are_in_the_catalogue() -> None:
    names = {metric.name for metric in catalogue.ALL}
    for page in PAGES:
        for name in re.findall(r"`((?:gpushare|DCGM|container_accelerator)_\w+)`", page.read_text()):
            assert name.removesuffix("_total") in names, f"{page.name}: {name}"


def test_the_page_of_the_metrics_api_lists_every_offered_metric() -> None:
    page = (ROOT / "docs" / "reference" / "metrics-api.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| ([a-z, ]+) \|$", page, re.MULTILINE))
    assert rows == {name: ", ".join(offer.kinds) for name, offer in DEFINITIONS.items()}


def test_event_reasons_in_the_docs_are_in_the_contract() -> None:
    reasons = {value for name, value in vars(contract).items() if name.startswith("EVENT_")}
    for page in PAGES:
        for reason in re.findall(r"`(GPUShare[A-Za-z]+)`", page.read_text()):
            assert reason in reasons, f"{page.name}: {reason}"
