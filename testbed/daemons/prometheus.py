"""A real Prometheus as a process of a testbed: it scrapes the targets and evaluates the rules of a test.

What belongs here: its configuration, and queries to it. What does not: the rules and queries of gpushare
(``gpushare.monitoring``).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from devkit.ports import LOOPBACK, free_ports
from devkit.process import Process
from devkit.waiting import until
from testbed.control_plane.api import read_text
from testbed.control_plane.bed import Bed
from testbed.programs.debian import program

_EVERY = "1s"
_FIRST_SCRAPE_S = 20.0


@dataclass(frozen=True)
class PrometheusServer:
    """A running Prometheus; ``url`` is its HTTP address."""

    process: Process
    url: str

    async def ask(self, expr: str) -> list[tuple[dict[str, str], float]]:
        """Evaluate a query now: labels and value of each series; a scalar has no labels.

        Raises ApiError if Prometheus rejects the query.
        """
        data = await self._get(f"query?query={quote(expr, safe='')}")
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(each["metric"], float(each["value"][1])) for each in data["result"]]

    async def values(self, expr: str, *by: str) -> dict[tuple[str, ...], float]:
        """Evaluate a query now: values of the labels ``by`` → value of the series."""
        return {tuple(labels.get(each, "") for each in by): value for labels, value in await self.ask(expr)}

    async def rules(self) -> list[dict[str, Any]]:
        """Return all rules with the health and error of their last evaluation."""
        return [rule for group in (await self._get("rules"))["groups"] for rule in group["rules"]]

    async def _get(self, path: str) -> Any:
        return json.loads(await read_text(f"{self.url}/api/v1/{path}"))["data"]


async def start_prometheus(
    bed: Bed, targets: Mapping[str, Sequence[str]], rules: Sequence[Path] = ()
) -> PrometheusServer:
    """Start Prometheus and return it when it has scraped all targets once.

    ``targets`` maps jobs to addresses (``host:port``); the labels of the targets win (``honor_labels``).
    """
    folder = bed.folder / "prometheus"
    folder.mkdir()
    config = folder / "prometheus.yml"
    config.write_text(json.dumps(_config(targets, rules)))
    (port,) = free_ports(1)
    url = f"http://{LOOPBACK}:{port}"
    argv = [
        str(program("prometheus")),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={LOOPBACK}:{port}",
    ]
    found = PrometheusServer(await bed.spawn("prometheus", argv, ready=f"{url}/-/ready"), url)
    await until(lambda: found.ask("min(up) == 1"), "Prometheus to scrape its targets", _FIRST_SCRAPE_S)
    return found


def _config(targets: Mapping[str, Sequence[str]], rules: Sequence[Path]) -> dict[str, Any]:
    """Return the configuration of Prometheus as JSON, which is valid YAML."""
    return {
        "global": {"scrape_interval": _EVERY, "scrape_timeout": _EVERY, "evaluation_interval": _EVERY},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [
            {"job_name": job, "honor_labels": True, "static_configs": [{"targets": list(addresses)}]}
            for job, addresses in targets.items()
        ],
    }
