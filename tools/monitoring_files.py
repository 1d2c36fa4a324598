"""Generates the files in ``components/monitoring``, and the runbooks of the package: ``make generate``.

Rules, alerts and dashboards are committed for use without Pulumi. The description of an alert is the part of
its runbook that says what it means and what follows.
"""

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

from components.render import as_yaml
from gpushare.contract import RUNBOOKS
from gpushare.monitoring import adapter, alerts, dashboards, grafana, rules

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "components" / "monitoring"
PACKAGED = ROOT / "gpushare" / "monitoring" / "runbooks.md"
_BEATS = ("Meaning", "What follows")
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")


def descriptions(page: str) -> dict[str, str]:
    """Return the text for each alert, from the page of the runbooks: no Markdown, on one line.

    Raises ValueError for a runbook without these paragraphs.
    """
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    return {section.partition("\n")[0].strip(): _description(section) for section in sections}


def _description(section: str) -> str:
    name = section.partition("\n")[0]
    paragraphs = dict(re.findall(r"^\*\*([^*]+)\.\*\* (.+?)(?:\n\n|\Z)", section, re.MULTILINE | re.DOTALL))
    if missing := [beat for beat in _BEATS if beat not in paragraphs]:
        raise ValueError(f"the runbook {name} has no paragraph {', '.join(missing)}")
    text = " ".join(" ".join(paragraphs[beat] for beat in _BEATS).split())
    return _LINK.sub(r"\1", text).replace("`", "")


def texts() -> Mapping[str, str]:
    """Return path in the folder → text of the file."""
    return {
        "rules.yaml": as_yaml([rules.document()]),
        "alerts.yaml": as_yaml([alerts.document(descriptions((ROOT / RUNBOOKS).read_text()))]),
        "adapter-rules.yaml": as_yaml([adapter.document()]),
        **{
            f"dashboards/{page.uid.replace('gpushare', 'gpu')}.json": grafana.as_json(page)
            for page in dashboards.PAGES
        },
    }


def packaged() -> str:
    """Return the page of the runbooks, which the package has for ``kubectl gpushare runbook``."""
    return (ROOT / RUNBOOKS).read_text()


def main() -> None:
    """Write all files."""
    argparse.ArgumentParser(prog="python -m tools.monitoring_files", description=__doc__).parse_args()
    PACKAGED.write_text(packaged())
    for name, text in texts().items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
