"""A real Prometheus as a process of a bed: it scrapes what a test names and works out its rules.

What belongs here: Prometheus' configuration, asking it. What does not: rules
and queries (``gpushare.monitoring``).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from testbed.control_plane.api import read_text
from testbed.control_plane.bed import Bed
from testbed.programs.debian import program
from testbed.system.ports import LOOPBACK, free_ports
from testbed.system.process import Process
from testbed.system.waiting import until

_EVERY = "1s"
_FIRST_SCRAPE_S = 20.0


@dataclass(frozen=True)
class Prometheus:
    """A Prometheus that runs; ``url`` is where its HTTP API is."""

    process: Process
    url: str

    async def ask(self, expr: str) -> list[tuple[dict[str, str], float]]:
        """What a query gives now: labels and value of each series; a scalar has no labels.

        Raises ApiError where Prometheus refuses the query.
        """
        data = await self._get(f"query?query={quote(expr, safe='')}")
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(each["metric"], float(each["value"][1])) for each in data["result"]]

    async def values(self, expr: str, *by: str) -> dict[tuple[str, ...], float]:
        """What a query gives now: the values of the labels ``by`` to the number."""
        return {tuple(labels.get(each, "") for each in by): value for labels, value in await self.ask(expr)}

    async def rules(self) -> list[dict[str, Any]]:
        """All rules with the health and error of their last evaluation."""
        return [rule for group in (await self._get("rules"))["groups"] for rule in group["rules"]]

    async def _get(self, path: str) -> Any:
        return json.loads(await read_text(f"{self.url}/api/v1/{path}"))["data"]


async def start_prometheus(
    bed: Bed, targets: Mapping[str, Sequence[str]], rules: Sequence[Path] = ()
) -> Prometheus:
    """Start Prometheus and return it when it has scraped everything once.

    ``targets`` is job to addresses (``host:port``); what they say of namespace, pod and node stays as it is.
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
    found = Prometheus(await bed.spawn("prometheus", argv, ready=f"{url}/-/ready"), url)
    await until(lambda: found.ask("min(up) == 1"), "Prometheus to scrape its targets", _FIRST_SCRAPE_S)
    return found


def _config(targets: Mapping[str, Sequence[str]], rules: Sequence[Path]) -> dict[str, Any]:
    """Prometheus' configuration; JSON is YAML too."""
    return {
        "global": {"scrape_interval": _EVERY, "scrape_timeout": _EVERY, "evaluation_interval": _EVERY},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [
            {"job_name": job, "honor_labels": True, "static_configs": [{"targets": list(addresses)}]}
            for job, addresses in targets.items()
        ],
    }
