"""Builds the modules of ``gpushare/`` that the Ansible collection needs: ``make setup``.

An Ansible controller has the collection, but no package of this project. The copies differ from their sources
in a first line with the name of the source, and in their imports of each other. Git does not have them: each
target of the Makefile that needs them makes them again after a change. They are not links, because their
imports differ.
"""

import argparse
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
COPIES: Final = ROOT / "ansible/plugins/plugin_utils/gpushare"
MODULES: Final = (
    "contract.py",
    "errors.py",
    "model/card_models.py",
    "model/cdi.py",
    "model/device_lists.py",
    "model/modes.py",
    "model/options.py",
    "model/quantity.py",
    "model/urls.py",
    "model/yaml_text.py",
    "kubescheduler/config.py",
    "kubescheduler/edit.py",
    "kubescheduler/health.py",
    "kubescheduler/host.py",
    "kubescheduler/journal.py",
    "kubescheduler/merge.py",
    "kubescheduler/plan.py",
    "kubescheduler/shape.py",
    "kubescheduler/static_pod.py",
)
"""Modules that import only the standard library, PyYAML (which Ansible needs) and each other."""
_IMPORT: Final = "from gpushare."
_IMPORT_OF_COPY: Final = "from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare."


def copies() -> Mapping[Path, str]:
    """Return the text of each copy by its path."""
    return {COPIES / name: _copy(name) for name in MODULES}


def _copy(name: str) -> str:
    text = (ROOT / "gpushare" / name).read_text().replace(_IMPORT, _IMPORT_OF_COPY)
    return f"# Copied from gpushare/{name} by `make setup`; change it there.\n{text}"


def main() -> None:
    """Write every copy, and remove those of former modules."""
    argparse.ArgumentParser(prog="python -m tools.collection_modules", description=__doc__).parse_args()
    shutil.rmtree(COPIES, ignore_errors=True)
    for path, text in copies().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
