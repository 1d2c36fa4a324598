# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A text file of a host and its permissions."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import errno
import io
import os
import stat


def read(path):
    """Return (text, permissions such as "0644"), or None if there is no such file.

    Raises OSError or IOError with the path, and ValueError for a file that is not UTF-8.
    """
    try:
        with io.open(path, "rb") as file:
            content, mode = file.read(), os.fstat(file.fileno()).st_mode
    except (IOError, OSError) as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = "{0} is not UTF-8 text: {1}".format(path, error)
    else:
        return text, "{0:04o}".format(stat.S_IMODE(mode))
    raise ValueError(problem)
