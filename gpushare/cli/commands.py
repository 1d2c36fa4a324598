"""``inspect``, ``top`` and ``limits``: flags and arguments of the commands that show the cluster.

The flags have the names that kubectl uses. The work is in ``display``, which a command imports when it runs:
the API client is slow to load, and ``--help`` does not need it.
"""

from typing import Any, Final

import click
from click.core import ParameterSource

from gpushare.cli import completion
from gpushare.cli.lazy import CONTEXT
from gpushare.cli.parameters import Duration, DurationType, NamespaceType, NodeType, UrlType
from gpushare.runtime.flags import with_options

_METRIC: Final = click.option("--metric", metavar="NAME", help="Show every series of this metric.")
_POD: Final = click.argument("pod", required=False, metavar="[POD]", shell_complete=completion.pods)
_NODE: Final = click.option(
    "--node", type=NodeType(), metavar="NODE", shell_complete=completion.nodes, help="Only pods on this node."
)
_INSPECT_EXAMPLES: Final = """\b
Examples:
  kubectl inspect gpushare
  kubectl inspect gpushare -d gpu-1
  kubectl inspect gpushare -l ack.node.gpu.schedule=cgpu -o json"""
_TOP_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare top node
  kubectl gpushare top pod -n team-a"""
_TOP_NODE_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare top node -s -d
  kubectl gpushare top node gpu-1 --use --watch
  kubectl gpushare top node --metric gpushare_card_temperature_celsius"""
_TOP_POD_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare top pod -n team-a
  kubectl gpushare top pod -A --node gpu-1
  kubectl gpushare top pod trainer --metric DCGM_CUSTOM_PROCESS_SM_UTIL"""
_LIMITS_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare limits -A
  kubectl gpushare limits trainer -n team-a -o wide"""
_EXPLAIN_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare explain trainer
  kubectl gpushare explain trainer -n team-a -o json"""
_DOCTOR_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare doctor
  kubectl gpushare doctor --node gpu-1
  kubectl gpushare doctor --probe --node gpu-1
  kubectl gpushare doctor -o json | jq '.checks[] | select(.status != "ok")'"""
_RECOMMEND_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare recommend -n team-a
  kubectl gpushare recommend -A --prometheus http://127.0.0.1:9090 --window 7d
  kubectl gpushare recommend -A -o json | jq '.items[] | select(.verdict == "raise")'"""
_REPORT_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare report -A --since 24h --prometheus http://127.0.0.1:9090
  kubectl gpushare report -A --since 4w --prometheus http://127.0.0.1:9090 -o csv > usage.csv"""
_MIGRATE_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare migrate -A
  kubectl gpushare migrate -f manifests/
  helm template chart | kubectl gpushare migrate -f - -o yaml
  kubectl gpushare migrate -n team-a -o yaml > converted.yaml"""
_CLUSTER: Final = click.option(
    "--cluster", metavar="NAME", help="Label cluster of the series, if Prometheus has several clusters."
)
_namespace_options = with_options(
    click.option(
        "-n",
        "--namespace",
        type=NamespaceType(),
        metavar="NAME",
        help="Namespace of the pods (default: that of the context).",
    ),
    click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Pods of all namespaces."),
)
_document_option = click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="Output format.")
connection_options = with_options(
    click.option(
        "--kubeconfig",
        type=click.Path(),
        metavar="FILE",
        help="Kubeconfig to use (default: KUBECONFIG, ~/.kube/config).",
    ),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig to use."),
)
_display_options = with_options(
    click.argument(
        "node", type=NodeType(), required=False, metavar="[NODE]", shell_complete=completion.nodes
    ),
    click.option(
        "-o", "--output", type=click.Choice(["wide", "json", "yaml", "name"]), help="Output format."
    ),
    click.option("-l", "--selector", default="", metavar="LABELS", help="Only nodes with these labels."),
    click.option("-w", "--watch", is_flag=True, help="Show again after every change, until interrupted."),
    connection_options,
)


@click.command("inspect", context_settings=CONTEXT, epilog=_INSPECT_EXAMPLES)
@click.option("-d", "--details", is_flag=True, help="Show the pods of every node.")
@_display_options
def inspect(*, details: bool, **flags: Any) -> None:
    """Show allocated and total GPU memory of all sharing nodes, or of NODE."""
    from gpushare.cli import display

    display.inspect(display.Flags(**flags), details=details)


@click.group("top", context_settings=CONTEXT, epilog=_TOP_EXAMPLES)
def top() -> None:
    """Show GPUs by node, in the tables of arena top node, or their usage by pod."""


@top.command("node", context_settings=CONTEXT, epilog=_TOP_NODE_EXAMPLES)
@click.option("-s", "--gpushare", is_flag=True, help="Show the memory of shared GPUs.")
@click.option("-d", "--details", is_flag=True, help="Show the pods of every node.")
@click.option("-u", "--use", is_flag=True, help="Show the usage of GPUs, from the exporters.")
@_METRIC
@_display_options
def top_node(*, gpushare: bool, details: bool, use: bool, metric: str | None, **flags: Any) -> None:
    """Show the GPUs of all nodes, or of NODE."""
    from gpushare.cli import display

    common = display.Flags(**flags)
    if use or metric:
        display.gpu_usage(common, metric, views=gpushare or details)
    else:
        display.top_node(common, gpushare=gpushare, details=details)


@top.command("pod", context_settings=CONTEXT, epilog=_TOP_POD_EXAMPLES)
@_POD
@_namespace_options
@_NODE
@_METRIC
@_document_option
@click.option("-w", "--watch", is_flag=True, help="Show again every few seconds, until interrupted.")
@connection_options
def top_pod(
    *, pod: str | None, namespace: str | None, everywhere: bool, metric: str | None, **flags: Any
) -> None:
    """Show the GPU usage of the pods of a namespace, or of POD."""
    from gpushare.cli import display

    common = display.Flags(**flags)
    display.pod_usage(common, common.usage_filter(pod, namespace, everywhere=everywhere), metric)


@click.command("limits", context_settings=CONTEXT, epilog=_LIMITS_EXAMPLES)
@_POD
@_namespace_options
@_NODE
@click.option("-o", "--output", type=click.Choice(["wide", "json", "yaml"]), help="Output format.")
@connection_options
def limits(*, pod: str | None, namespace: str | None, everywhere: bool, **flags: Any) -> None:
    """Show limit, usage, peak and refused allocations of the containers of a namespace, or of POD.

    For a POD without limits it shows the reason.
    """
    from gpushare.cli import display

    common = display.Flags(**flags)
    display.limits(common, common.usage_filter(pod, namespace, everywhere=everywhere))


@click.command("explain", context_settings=CONTEXT, epilog=_EXPLAIN_EXAMPLES)
@click.argument("pod", shell_complete=completion.pending_pods)
@_namespace_options
@_document_option
@connection_options
def explain(
    *,
    pod: str,
    namespace: str | None,
    everywhere: bool,
    output: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Explain why POD is pending, and what would make it fit.

    Shows the reason for each node and GPU, in the words of the extender, and remedies: a smaller request, the
    pods to evict, a GPU to uncordon, a node to add. Reads only. Exit code 0 with an answer, 1 without.
    """
    from gpushare.cli.cluster import ApiSource
    from gpushare.cli.document import serialized
    from gpushare.cli.explain.answer import answer
    from gpushare.cli.explain.facts import read_facts
    from gpushare.cli.explain.view import document, text

    source = ApiSource(kubeconfig, context)
    found = answer(read_facts(source, pod, source.namespace(namespace, everywhere=everywhere)))
    click.echo(serialized(document(found), output) if output else text(found), nl=False)


@click.command("doctor", context_settings=CONTEXT, epilog=_DOCTOR_EXAMPLES)
@click.option(
    "--node",
    type=NodeType(),
    metavar="NODE",
    shell_complete=completion.nodes,
    help="Check this node and its services only.",
)
@click.option(
    "--probe",
    "probes",
    is_flag=True,
    help="Also run a pod with 1 unit through the whole chain, and remove it.",
)
@click.option(
    "--image", metavar="IMAGE", help="Image of that pod, with sh (default: that of the node agent)."
)
@click.option(
    "-n",
    "--namespace",
    type=NamespaceType(),
    metavar="NAME",
    help="Namespace of that pod (default: that of the context).",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.IntRange(1, 3600),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long that pod may take.",
)
@_document_option
@connection_options
def doctor(*, node: str | None, output: str | None, probes: bool, **flags: Any) -> int:
    """Check the installation, from the scheduler to the GPUs.

    Each check has a status (ok, warning, failed, unknown), its cause, and the next command. Changes nothing,
    and creates nothing without --probe. What may not be read is unknown, with the missing right. Exit code 0
    if no check failed, 1 if one failed, 2 for wrong usage.
    """
    from gpushare.cli.cluster import ApiSource
    from gpushare.cli.doctor.checks import examine, is_healthy
    from gpushare.cli.doctor.gather import gather
    from gpushare.cli.doctor.view import document, text
    from gpushare.cli.document import serialized

    source = ApiSource(flags["kubeconfig"], flags["context"])
    if not probes and (flags["image"] or flags["namespace"]):
        raise click.UsageError("--image and --namespace are those of the pod of --probe: set --probe too")
    snapshot = gather(source, node)
    findings = examine(snapshot)
    if probes:
        from gpushare.cli.doctor.probe import probe, request_for

        namespace = source.namespace(flags["namespace"], everywhere=False)
        request = request_for(snapshot, namespace, node, image=flags["image"], timeout_s=flags["timeout_s"])
        findings += probe(source, request, snapshot, lambda text: click.echo(text, err=True))
    click.echo(serialized(document(findings), output) if output else text(findings), nl=False)
    return 0 if is_healthy(findings) else 1


@click.command("recommend", context_settings=CONTEXT, epilog=_RECOMMEND_EXAMPLES)
@_namespace_options
@click.option(
    "--margin",
    type=click.IntRange(0, 400),
    default=20,
    show_default=True,
    metavar="PERCENT",
    help="Room above the peak.",
)
@click.option(
    "--prometheus",
    type=UrlType(),
    metavar="URL",
    help="Read peaks from Prometheus; without it, from the exporters since the start of each container.",
)
@click.option(
    "--window",
    type=DurationType(),
    default="7d",
    show_default=True,
    metavar="TIME",
    help="How far back, with --prometheus.",
)
@_CLUSTER
@_document_option
@connection_options
def recommend(  # noqa: PLR0913 - the flags
    *,
    namespace: str | None,
    everywhere: bool,
    margin: int,
    prometheus: str | None,
    window: Duration,
    cluster: str | None,
    output: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Suggest GPU memory requests of workloads, from peaks and refused allocations.

    A suggestion is the peak plus a margin in whole units of the node; after refused allocations, at least the
    limit plus the margin. Without a peak, "now only" or "no data" is shown instead. Changes nothing.
    """
    from gpushare.cli import display
    from gpushare.cli.document import serialized
    from gpushare.cli.recommend import gather, sizing, view

    source_of = click.get_current_context().get_parameter_source
    if not prometheus and (cluster or source_of("window") is not ParameterSource.DEFAULT):
        raise click.UsageError("--window and --cluster select series in Prometheus; they need --prometheus")
    flags = display.Flags(output=output, kubeconfig=kubeconfig, context=context)
    selected = flags.source.namespace(namespace, everywhere=everywhere)
    screen = display.Screen(redraw=False)
    observed = gather.gather(
        flags.source,
        selected,
        screen.report,
        prometheus=prometheus,
        window_s=window.seconds,
        cluster=cluster,
    )
    basis = sizing.Basis.WINDOW if prometheus else sizing.Basis.SINCE_START
    found = sizing.recommendations(observed, margin, basis)
    if output:
        content = view.document(found, margin, window.seconds if prometheus else None)
        screen.show(serialized(content, output))
        return
    screen.show(display.formatted(view.table(found, window.text)))
    display.note_namespace(screen, found, selected)
    if found:
        click.echo(view.rule(margin), nl=False)


@click.command("report", context_settings=CONTEXT, epilog=_REPORT_EXAMPLES)
@_namespace_options
@click.option(
    "--since",
    type=DurationType(),
    default="24h",
    show_default=True,
    metavar="TIME",
    help="How far back from now.",
)
@click.option("--prometheus", type=UrlType(), metavar="URL", required=True, help="Where the series are.")
@_CLUSTER
@click.option("-o", "--output", type=click.Choice(["json", "yaml", "csv"]), help="Output format.")
@connection_options
def report(  # noqa: PLR0913 - the flags
    *,
    namespace: str | None,
    everywhere: bool,
    since: Duration,
    prometheus: str,
    cluster: str | None,
    output: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Report GPU-hours and GiB-hours of each workload, allocated and used.

    With -A, all rows and what no container had add up to the GPUs of the cluster exactly. Time without data
    is not counted, and named.
    """
    import time

    from gpushare.cli import display
    from gpushare.cli.document import serialized
    from gpushare.cli.report import accounting, gather, view

    flags = display.Flags(output=output, kubeconfig=kubeconfig, context=context)
    selected = flags.source.namespace(namespace, everywhere=everywhere)
    span = gather.span_of(time.time(), since.seconds)
    facts = gather.gather(flags.source, selected, prometheus, span, cluster)
    found = accounting.account(
        facts.gpus,
        facts.shares,
        facts.owners,
        step_s=span.step_s,
        steps=span.steps,
        whole=selected is None,
    )
    screen = display.Screen(redraw=False)
    if output == "csv":
        screen.show(view.comma_separated(found))
    elif output:
        screen.show(serialized(view.document(found, span, facts.notes), output))
    else:
        screen.show(display.formatted(view.table(found)))
    screen.warn([*view.gap_lines(found, span), *facts.notes])
    display.note_namespace(screen, found.rows, selected)


@click.command("migrate", context_settings=CONTEXT, epilog=_MIGRATE_EXAMPLES)
@_namespace_options
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="PATH",
    help="Read manifests from this file or folder, or - for standard input, instead of the cluster; may be "
    "repeated.",
)
@click.option(
    "--unit",
    type=click.Choice(["GiB", "MiB"]),
    default="GiB",
    show_default=True,
    help="Unit of the nodes that will share.",
)
@click.option(
    "--gpu-mib",
    type=click.IntRange(min=1),
    metavar="MIB",
    help="Memory of one GPU, to convert nvidia.com/gpumem-percentage.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["json", "yaml"]),
    help="json: the report; yaml: the converted manifests.",
)
@connection_options
def migrate(  # noqa: PLR0913 - the flags
    *,
    namespace: str | None,
    everywhere: bool,
    files: tuple[str, ...],
    unit: str,
    gpu_mib: int | None,
    output: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Report what a move from the Aliyun gpushare pair or from HAMi needs, and convert manifests.

    For each object: whether it stays, changes, or is not supported, and why. Changes nothing in the cluster.
    Exit code 1 if -o yaml leaves out a manifest or something that one has, or may not list its kind.
    """
    from gpushare.cli import display
    from gpushare.cli.document import serialized
    from gpushare.cli.migrate import gather, hami, manifest, survey, view
    from gpushare.cli.units import NodeUnit

    if files and (namespace or everywhere):
        raise click.UsageError(
            "--filename reads files instead of the cluster: leave out --namespace and --all-namespaces"
        )
    flags = display.Flags(output=output, kubeconfig=kubeconfig, context=context)
    screen = display.Screen(redraw=False)
    notes: dict[str, str] = {}
    selected = None
    if files:
        objects = gather.of_files(files)
    else:
        selected = flags.source.namespace(namespace, everywhere=everywhere)
        objects, notes = gather.of_cluster(flags.source, selected)
    found = survey.survey(objects, hami.Units(NodeUnit(unit), gpu_mib))
    screen.warn(notes.values())
    display.note_namespace(screen, found.findings, selected)
    if output != "yaml":
        screen.show(serialized(view.document(found, notes.values()), "json") if output else view.text(found))
        return 0
    screen.show(view.manifests(found))
    lost = [each for each in found.findings if each.verdict is survey.Verdict.UNSUPPORTED]
    screen.warn(f"{each.subject}: not supported: {each.text}" for each in lost)
    return 1 if lost or any(map(manifest.is_workload, notes)) else 0
