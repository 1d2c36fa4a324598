#!/usr/bin/python
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Reads several text files of a host in one call."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: read_files
short_description: Read several text files
version_added: 0.1.0
description:
  - Reads those of the files that exist, in one call. C(stat) and C(slurp) need one for each file.
  - Changes nothing.
options:
  paths:
    description: The files. They must be UTF-8. Links are followed.
    type: list
    elements: path
    required: true
  skip_unreadable:
    description: Leave out files that cannot be read, instead of a failure.
    type: bool
    default: false
attributes:
  check_mode:
    description: Runs the same in check mode.
    support: full
author:
  - The gpushare authors
"""

EXAMPLES = r"""
- name: Read the settings of the engines
  gpushare.nodes.read_files:
    paths: [/etc/docker/daemon.json, /etc/containerd/config.toml]
  register: settings
"""

RETURN = r"""
texts:
  description: The content of each file that exists, by its path.
  returned: always
  type: dict
modes:
  description: The permissions of each file that exists, by its path, such as C("0644").
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpushare.nodes.plugins.module_utils.text_files import read


def found(paths, skip_unreadable):
    """Return path to (text, permissions) of those that exist."""
    files = {}
    for path in paths:
        try:
            files[path] = read(path)
        except (IOError, OSError):
            if not skip_unreadable:
                raise
    return {path: file for path, file in files.items() if file}


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "paths": {"type": "list", "elements": "path", "required": True},
            "skip_unreadable": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        files = found(module.params["paths"], module.params["skip_unreadable"])
    except (IOError, OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=False,
        texts={path: text for path, (text, _) in files.items()},
        modes={path: mode for path, (_, mode) in files.items()},
    )


if __name__ == "__main__":
    main()
