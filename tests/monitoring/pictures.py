"""``make pictures PART=dashboards``: dashboards in Chromium, drawn by Grafana's packages over Prometheus.

It draws a healthy cluster and one with an over-committed GPU, or what your Prometheus has, without Grafana's
server. ``tools/dashboards`` has the page and the lock file of the packages, which are installed (450 MB) and
built in the cache.
"""

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web

from devkit.folders import cache_root
from devkit.ports import LOOPBACK, free_ports
from devkit.waiting import until
from testbed.control_plane.api import read_text
from testbed.programs.debian import program
from tests.support.builders.gpu_series import HEALTHY, OVERCOMMITTED, Share, page
from tests.support.chromium import Tab, chromium
from tests.support.promtool import FILES
from tools.monitoring_files import FOLDER

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ROOT / "tools/dashboards"
WIDTH: Final = 1500
HISTORY_S: Final = 60
SCENES: Final = {"healthy": HEALTHY, "over-committed": OVERCOMMITTED}


def built() -> Path:
    """The folder of the page with its packages."""
    npm = shutil.which("npm")
    if not npm:
        sys.exit("npm is not installed: install Node.js 20 or later (https://nodejs.org)")
    folder = cache_root() / "dashboards"
    shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
    for step in (["install", "--ignore-scripts", "--no-audit", "--no-fund"], ["run", "--silent", "build"]):
        subprocess.run([npm, *step], cwd=folder, check=True)  # noqa: S603 - npm, with fixed arguments
    return folder


@asynccontextmanager
async def site(static: Path, shares: Sequence[Share]) -> AsyncIterator[str]:
    """The page, the dashboards, and the series of a scene as ``/metrics``."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=page(time.time(), shares))

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_static("/dashboards", FOLDER / "dashboards")
    app.router.add_static("/", static)
    runner = web.AppRunner(app)
    await runner.setup()
    (port,) = free_ports(1)
    await web.TCPSite(runner, LOOPBACK, port).start()
    try:
        yield f"http://{LOOPBACK}:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def scraped(target: str) -> AsyncIterator[str]:
    """A Prometheus with our rules and a minute of history."""
    (port,) = free_ports(1)
    url = f"http://{LOOPBACK}:{port}"
    with TemporaryDirectory() as folder:
        config = Path(folder) / "prometheus.yml"
        config.write_text(json.dumps(configuration(target.removeprefix("http://"))))
        process = await asyncio.create_subprocess_exec(
            *(str(program("prometheus")), f"--config.file={config}", f"--storage.tsdb.path={folder}/data"),
            f"--web.listen-address={LOOPBACK}:{port}",
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            enough = f"min(count_over_time(cluster:gpushare_free_units:sum[1h])) >= {HISTORY_S}"
            await until(lambda: answers(url, enough), "a minute of history", 3 * HISTORY_S, 1)
            yield url
        finally:
            process.terminate()
            await process.wait()


def configuration(address: str) -> dict[str, Any]:
    """The configuration of Prometheus as JSON, which is valid YAML."""
    targets = [{"targets": [address]}]
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(file) for file in FILES],
        "scrape_configs": [{"job_name": "gpushare", "honor_labels": True, "static_configs": targets}],
    }


async def answers(url: str, query: str) -> bool:
    """Whether the query has a result."""
    text = await read_text(f"{url}/api/v1/query?{urlencode({'query': query})}")
    return bool(json.loads(text)["data"]["result"])


async def draw(tab: Tab, own: str, prometheus: str, folder: Path, theme: str) -> None:
    """One picture for each dashboard. Writes the panels without data to the standard output."""
    for file in sorted((FOLDER / "dashboards").iterdir()):
        query = {"dashboard": f"dashboards/{file.name}", "prometheus": prometheus, "seconds": HISTORY_S}
        await tab.emulate(WIDTH, WIDTH, theme)
        await tab.open(f"{own}/index.html?{urlencode({**query, 'theme': theme})}")
        await tab.wait("window.failure || window.drawn")
        if failure := await tab.evaluate("window.failure"):
            sys.exit(f"{file.name}: {failure}")
        await tab.emulate(WIDTH, await tab.evaluate("document.body.offsetHeight"), theme)
        await tab.evaluate("new Promise(requestIdleCallback).then(() => 0)")
        picture = folder / f"{file.stem}.png"
        save(picture, await tab.picture())
        empty = ", ".join(await tab.evaluate("window.drawn.empty"))
        sys.stdout.write(f"{picture}{f': no data in {empty}' if empty else ''}\n")


def save(path: Path, content: bytes) -> None:
    """Write the file; its folder is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


async def run(args: argparse.Namespace) -> None:
    """The pictures of all scenes, or those of one Prometheus."""
    static = built()
    async with chromium() as tab:
        if args.prometheus:
            async with site(static, ()) as own:
                await draw(tab, own, args.prometheus, args.folder, args.theme)
            return
        for name, shares in SCENES.items():
            async with site(static, shares) as own, scraped(own) as url:
                await draw(tab, own, url, args.folder / name, args.theme)


def main() -> None:
    """Read the arguments and draw."""
    parser = argparse.ArgumentParser(prog="python -m tests.monitoring.pictures", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the pictures")
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    parser.add_argument("--prometheus", help="URL of your Prometheus, instead of the two clusters")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
