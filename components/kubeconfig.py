"""The kubeconfig of a stack: a path or its text, and the context that belongs to the stack."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from components.config import Stack
from gpushare.adapters.kube.config import user_kubeconfig
from gpushare.adapters.kube.kubeconfig import contexts
from gpushare.errors import ConfigError


def is_content(kubeconfig: str) -> bool:
    """Whether it is the text of a kubeconfig and not a path."""
    return "\n" in kubeconfig or kubeconfig.lstrip().startswith("{")


@contextmanager
def as_files(kubeconfig: str) -> Iterator[str | None]:
    """Paths as in KUBECONFIG, by default those of kubectl; None for the service account of a pod.

    A text is in a file that only this user can read, until the end of the block.
    """
    if not is_content(kubeconfig):
        yield user_kubeconfig(kubeconfig or None)
        return
    with TemporaryDirectory() as folder:
        file = Path(folder) / "kubeconfig"
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), "w") as opened:
            opened.write(kubeconfig)
        yield str(file)


def with_context(stack: Stack) -> Stack:
    """The stack with the context that it uses. Raises ConfigError without a unique one.

    The state of the engine then has its name: ``destroy``, which does not run the program, deletes the
    objects where they are, whatever the current context is. Without a readable kubeconfig the stack is
    unchanged.
    """
    try:
        with as_files(stack.kubeconfig) as paths:
            names = contexts(paths) if paths else ()
    except ConfigError:
        return stack
    return replace(stack, context=chosen(names, stack.context))


def chosen(names: Sequence[str], configured: str) -> str:
    """The configured context, or the only one; "" without any. Raises ConfigError."""
    listed = ", ".join(names)
    if configured and names and configured not in names:
        raise ConfigError(f"context: {configured}, but the kubeconfig has {listed}; use one of them")
    if not configured and len(names) > 1:
        raise ConfigError(
            f"context: not set, and the kubeconfig has several: {listed}; set the one of this cluster"
        )
    return configured or next(iter(names), "")
