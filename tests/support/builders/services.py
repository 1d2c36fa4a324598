"""The services of a stack, and the settings that each reads from its container."""

import os
from collections.abc import Mapping
from typing import Any, Final, TypeVar
from unittest.mock import patch

import click

from gpushare.board.main import command as board_server
from gpushare.board.settings import BoardSettings
from gpushare.deviceplugin.main import command as agent
from gpushare.deviceplugin.settings import AgentSettings
from gpushare.exporter.main import command as exporter
from gpushare.exporter.settings import ExporterSettings
from gpushare.extender.main import command as extender
from gpushare.extender.settings import ExtenderSettings, WebhookSettings
from gpushare.extender.webhook import command as webhook
from gpushare.installer.main import install_command, uninstall_command
from gpushare.installer.settings import InstallerSettings, InstallSettings
from gpushare.metricsapi.main import command as metrics_api
from gpushare.metricsapi.settings import MetricsApiSettings
from gpushare.mpsd.main import command as mps
from gpushare.mpsd.settings import MpsSettings
from tests.support.builders.settings import parsed

S = TypeVar("S")

SERVICES: Final[Mapping[tuple[str, ...], tuple[click.Command, type[Any]]]] = {
    ("gpushare", "extender"): (extender, ExtenderSettings),
    ("gpushare", "scheduler-name"): (webhook, WebhookSettings),
    ("gpushare-device-plugin-v2",): (agent, AgentSettings),
    ("gpushare", "exporter"): (exporter, ExporterSettings),
    ("gpushare", "metrics-api"): (metrics_api, MetricsApiSettings),
    ("gpushare", "board-server"): (board_server, BoardSettings),
    ("gpushare", "isolation", "install"): (install_command, InstallSettings),
    ("gpushare", "isolation", "uninstall"): (uninstall_command, InstallerSettings),
    ("gpushare", "mps"): (mps, MpsSettings),
}
"""The first words of the command of a container: its command line, and its settings."""


def settings_in(container: Mapping[str, Any], kind: type[S]) -> S:
    """The settings as the service in the container reads them from its arguments and its environment."""
    (words,) = [each for each in SERVICES if tuple(container["command"][: len(each)]) == each]
    command, read = SERVICES[words]
    assert issubclass(read, kind)
    environ = {each["name"]: each.get("value", "of-the-pod") for each in container["env"]}
    with patch.dict(os.environ, environ):
        found: S = parsed(command, read, *container["command"][len(words) :])
    return found
