"""Package managers that would install everything and record its names; for tests of this folder."""

from pathlib import Path

import pytest

# The text is the same for all tests, so that they share its archive.
_MODULE = """#!/usr/bin/python
import os
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({"name": {"type": "list"}, "state": {}}, supports_check_mode=True)
with open(os.environ["FAKE_PACKAGES"], "a") as file:
    file.write("".join(name + "\\n" for name in module.params["name"]))
module.exit_json(changed=True)
"""


def record(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace the modules dnf and yum; return the file that gets the names."""
    library, names = folder / "library", folder / "names"
    library.mkdir()
    for module in ("dnf", "yum"):
        (library / f"{module}.py").write_text(_MODULE)
    monkeypatch.setenv("FAKE_PACKAGES", str(names))
    monkeypatch.setenv("ANSIBLE_LIBRARY", str(library))
    return names
