"""Generates the files in ``components/monitoring``: ``make monitoring``.

Rules, alerts and dashboards are committed for use without Pulumi.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

from components.render import as_yaml
from gpushare.monitoring import adapter, alerts, dashboards, rules

FOLDER = Path(__file__).parents[1] / "components" / "monitoring"


def texts() -> Mapping[str, str]:
    """Return path in the folder → text of the file."""
    return {
        "rules.yaml": as_yaml([rules.document()]),
        "alerts.yaml": as_yaml([alerts.document()]),
        "adapter-rules.yaml": as_yaml([adapter.document()]),
        **{
            f"dashboards/{page.uid.replace('gpushare', 'gpu')}.json": dashboards.as_json(page)
            for page in dashboards.PAGES
        },
    }


def main() -> None:
    """Write all files."""
    argparse.ArgumentParser(prog="python -m tools.monitoring_files", description=__doc__).parse_args()
    for name, text in texts().items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
