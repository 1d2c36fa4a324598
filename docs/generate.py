"""Reference pages made from code: names on the wire, metrics, the daemons' flags.

Run by ``conf.py`` at every build; the pages are not committed.
"""

import re
from pathlib import Path

import click

from gpushare import contract
from gpushare.deviceplugin.main import command as device_plugin
from gpushare.extender.main import command as extender
from gpushare.monitoring import catalogue

REFERENCE = Path(__file__).parent / "reference"


def main() -> None:
    """Write all pages."""
    (REFERENCE / "names.md").write_text(names())
    (REFERENCE / "metrics.md").write_text(metrics())
    (REFERENCE / "extender-flags.md").write_text(flags("extender", extender))
    (REFERENCE / "device-plugin-flags.md").write_text(flags("device plugin", device_plugin))


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
    """Every metric of every daemon."""
    lines = ["# Metrics", "", "| name | kind | labels | meaning |", "|---|---|---|---|"]
    for metric in (*catalogue.EXTENDER, *catalogue.DEVICE_PLUGIN):
        name = f"{metric.name}_total" if metric.kind == "counter" else metric.name
        lines.append(f"| `{name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.help} |")
    return "\n".join(lines) + "\n"


def flags(name: str, command: click.Command) -> str:
    """Every flag of a daemon."""
    lines = [f"# Flags of the {name}", "", "| flag | variable | default | meaning |", "|---|---|---|---|"]
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            default = (
                ""
                if option.default is None or not isinstance(option.default, str | int | float)
                else option.default
            )
            lines.append(f"| `{_longest(option)}` | {_variable(option)} | {default} | {option.help} |")
    return "\n".join(lines) + "\n"


def _longest(option: click.Option) -> str:
    return max(option.opts, key=len)


def _variable(option: click.Option) -> str:
    return f"`{option.envvar}`" if option.envvar else ""


if __name__ == "__main__":
    main()
