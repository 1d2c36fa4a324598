"""Copies modules of ``gpushare/`` into the Ansible collection: ``make generate``.

An Ansible controller has the collection, but no package of this project. The copies differ from their sources
in a first line with the name of the source, and in their imports of each other. They are not links:
``ansible-galaxy`` follows links when it builds a tarball, but breaks them when it installs from git.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
COPIES: Final = ROOT / "ansible/plugins/plugin_utils/gpushare"
MODULES: Final = (
    "contract.py",
    "errors.py",
    "model/card_models.py",
    "model/modes.py",
    "kubescheduler/health.py",
    "model/quantity.py",
    "model/urls.py",
    "model/yaml_text.py",
    "kubescheduler/config.py",
    "kubescheduler/merge.py",
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
    return f"# Copied from gpushare/{name} by `make generate`; change it there.\n{text}"


def main() -> None:
    """Write every copy."""
    argparse.ArgumentParser(prog="python -m tools.collection_modules", description=__doc__).parse_args()
    for path, text in copies().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
