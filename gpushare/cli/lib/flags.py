"""Flags of several commands, with the names that kubectl uses. ``--help`` loads it: no slow imports."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar, cast

import click

from gpushare.cli.lib import candidates
from gpushare.cli.lib.flag_types import NAMESPACE, NODE, POD, POD_KINDS
from gpushare.runtime.flags import with_options

F = TypeVar("F", bound=Callable[..., Any])


def _one_pod(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> str | None:
    """The name of ``NAME``, ``pod/NAME`` or ``pod NAME``."""
    names = words[1:] if len(words) > 1 and words[0] in POD_KINDS.split() else words
    if len(names) > 1:
        raise click.UsageError(
            f"Got several pods: {' '.join(names)}. Name one, or none with --selector.", context
        )
    return POD.convert(names[0], parameter, context) if names else None


def pod_argument_of(complete: Any, *, required: bool = False) -> Callable[[F], F]:
    """Return a decorator that adds the argument POD, which users of kubectl write in three ways."""
    metavar = "POD" if required else "[POD]"
    return click.argument(
        "pod", nargs=-1, required=required, metavar=metavar, callback=_one_pod, shell_complete=complete
    )


pod_argument: Final = pod_argument_of(candidates.pods)
node_argument: Final = click.argument(
    "node", type=NODE, required=False, metavar="[NODE]", shell_complete=candidates.nodes
)
metric_option: Final = click.option("--metric", metavar="NAME", help="Show every series of this metric.")
cluster_option: Final = click.option(
    "--cluster", metavar="NAME", help="Label cluster of the series, if Prometheus has several clusters."
)
selector_option: Final = click.option(
    "-l", "--selector", default="", metavar="LABELS", help="Only pods with these labels."
)
document_option: Final = click.option(
    "-o", "--output", type=click.Choice(["json", "yaml"]), help="Output format."
)
namespace_option: Final = click.option(
    "-n",
    "--namespace",
    type=NAMESPACE,
    metavar="NAME",
    help="Namespace of the pods (default: the namespace of the context).",
)
namespace_options = with_options(
    namespace_option,
    click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Pods of all namespaces."),
)
connection_options = with_options(
    click.option(
        "--kubeconfig",
        type=click.Path(),
        metavar="FILE",
        help="Kubeconfig to use (default: KUBECONFIG, ~/.kube/config).",
    ),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig to use."),
    click.option("--as", "user", metavar="USER", help="User to impersonate."),
    click.option(
        "--as-group", "groups", multiple=True, metavar="GROUP", help="Group to impersonate, with --as."
    ),
)


def node_option(help_: str = "Only pods on this node.") -> Callable[[F], F]:
    """Return a decorator that adds ``--node``."""
    return click.option("--node", type=NODE, metavar="NODE", shell_complete=candidates.nodes, help=help_)


def with_source(command: F) -> F:
    """Add the flags of the connection; the command gets ``source``, an ApiSource.

    An error for a missing right says who can give it.
    """

    @connection_options
    @wraps(command)
    def call(
        *,
        kubeconfig: str | None,
        context: str | None,
        user: str | None,
        groups: tuple[str, ...],
        **flags: Any,
    ) -> Any:
        from gpushare.cli.lib.missing_right import refused
        from gpushare.errors import ApiError
        from gpushare.overview.connection import ApiSource

        if groups and not user:
            raise click.UsageError("--as-group needs --as")
        try:
            return command(source=ApiSource(kubeconfig, context, user, groups), **flags)
        except ApiError as error:
            raise refused(error) from error

    return cast("F", call)


def with_namespace(command: F) -> F:
    """Add the flags of the connection; the command gets ``source``, and the ``namespace`` to show.

    ``namespace`` is that of ``namespace_options`` or of kubectl, and None for all.
    """

    @with_source
    @wraps(command)
    def call(*, namespace: str | None, everywhere: bool, source: Any, **flags: Any) -> Any:
        return command(source=source, namespace=source.namespace(namespace, everywhere=everywhere), **flags)

    return cast("F", call)


node_options = with_options(
    node_argument,
    click.option(
        "-o", "--output", type=click.Choice(["wide", "json", "yaml", "name"]), help="Output format."
    ),
    click.option("-l", "--selector", default="", metavar="LABELS", help="Only nodes with these labels."),
    click.option("-w", "--watch", is_flag=True, help="Show again after every change, until interrupted."),
    # kubectl takes it for nodes too, which have no namespace.
    click.option("-n", "--namespace", type=NAMESPACE, hidden=True, expose_value=False),
    with_source,
)
"""The flags of commands that show nodes."""
