"""Reference pages made from code: names on the wire, metrics, the extender's flags.

Run by ``conf.py`` at every build; the pages are not committed.
"""

import re
from pathlib import Path

import click

from gpushare import contract
from gpushare.extender.main import command
from gpushare.monitoring import catalogue

REFERENCE = Path(__file__).parent / "reference"


def main() -> None:
    """Write all pages."""
    (REFERENCE / "names.md").write_text(names())
    (REFERENCE / "metrics.md").write_text(metrics())
    (REFERENCE / "extender-flags.md").write_text(flags())


def names() -> str:
    """Every constant of the contract, in its order, under the headings of its source."""
    lines = ["# Names on the wire", ""]
    for line in Path(contract.__file__).read_text().splitlines():
        heading = re.match(r"# --- (.+?) -+$", line)
        constant = re.match(r"([A-Z_]+): Final = ", line)
        text = re.match(r'"""(.+)"""$', line)
        if heading:
            lines += ["", f"## {heading[1].capitalize()}", ""]
        elif constant:
            value = getattr(contract, constant[1])
            shown = ", ".join(map(str, value)) if isinstance(value, tuple) else value
            lines.append(f"- `{shown}` ({constant[1]})")
        elif text and lines[-1].startswith("- "):
            lines[-1] += f": {text[1].replace('``', '`')}"
    return "\n".join(lines) + "\n"


def metrics() -> str:
    """Every metric of the extender."""
    lines = ["# Metrics", "", "| name | kind | labels | meaning |", "|---|---|---|---|"]
    for metric in catalogue.EXTENDER:
        name = f"{metric.name}_total" if metric.kind == "counter" else metric.name
        lines.append(f"| `{name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.help} |")
    return "\n".join(lines) + "\n"


def flags() -> str:
    """Every flag of the extender."""
    lines = ["# Flags of the extender", "", "| flag | variable | default | meaning |", "|---|---|---|---|"]
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            default = (
                ""
                if option.default is None or not isinstance(option.default, str | int | float)
                else option.default
            )
            lines.append(f"| `{option.opts[-1]}` | {_variable(option)} | {default} | {option.help} |")
    return "\n".join(lines) + "\n"


def _variable(option: click.Option) -> str:
    return f"`{option.envvar}`" if option.envvar else ""


if __name__ == "__main__":
    main()
