"""``make pictures PART=dashboards``: dashboards in Chromium, drawn by Grafana's packages over Prometheus.

It draws a healthy cluster and one with an over-committed GPU, or what your Prometheus has, without Grafana's
server. ``tools/dashboards`` has the page and the lock file of the packages, which are installed (450 MB) and
built in the cache.
"""

import argparse
import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from devkit.folders import cache_root
from tests.support.builders.gpu_series import HEALTHY, OVERCOMMITTED, Fleet, Share, history_of, page
from tests.support.chromium import Tab, chromium
from tests.support.fixtures.scraped_series import metrics_site, scraped, serving
from tools.monitoring_files import FOLDER

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ROOT / "tools/dashboards"
WIDTH: Final = 1500
HISTORY_S: Final = 60
DAYS: Final = 30
ENOUGH: Final = f"min(count_over_time(cluster:gpushare_free_units:sum[1h])) >= {HISTORY_S}"
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
    app = metrics_site(lambda: page(time.time(), Fleet(shares)))
    app.router.add_static("/dashboards", FOLDER / "dashboards")
    app.router.add_static("/", static)
    async with serving(app) as url:
        yield url


async def draw(tab: Tab, own: str, prometheus: str, folder: Path, theme: str) -> None:
    """One picture for each dashboard. Writes the panels without data to the standard output."""
    for file in sorted((FOLDER / "dashboards").iterdir()):
        seconds = DAYS * 86400 if "now-30d" in file.read_text() else HISTORY_S
        query = {"dashboard": f"dashboards/{file.name}", "prometheus": prometheus, "seconds": seconds}
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
            async with (
                site(static, shares) as own,
                scraped(own, ENOUGH, 3 * HISTORY_S, history=history_of(time.time(), DAYS)) as url,
            ):
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
