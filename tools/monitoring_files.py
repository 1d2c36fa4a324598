"""``python -m tools.monitoring_files``: writes what is in ``components/monitoring``.

Rules, alerts and dashboards are committed, so that whoever uses no Pulumi can take them as they are.
"""

from collections.abc import Mapping
from pathlib import Path

from components.render import as_yaml
from gpushare.monitoring import adapter, alerts, dashboards, rules

FOLDER = Path(__file__).parents[1] / "components" / "monitoring"


def texts() -> Mapping[str, str]:
    """Path in the folder to what the file says."""
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
    for name, text in texts().items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
