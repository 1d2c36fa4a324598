"""Verdicts on hosts and cluster, from results of Ansible modules. Pure."""

from ansible_collections.gpushare.nodes.plugins.plugin_utils import (
    checks,
    preflight,
    scheduler_probe,
    validation,
)

Document = checks.Document


def of_preflight(result: Document, required: Document) -> Document:
    """Return the verdict of preflight on the result of host_report."""
    if "report" not in result:
        return checks.not_examined(_reason(result))
    report = result["report"]
    return checks.verdict(preflight.checks(report, preflight.Requirements(**required)), report)


def of_validation(result: Document, required: Document, node: Document, extender: Document) -> Document:
    """Return the verdict on a deep host_report, the Node object and the answer of the extender."""
    if "report" not in result:
        return checks.not_examined(_reason(result))
    report = result["report"]
    return checks.verdict(
        validation.checks(report, validation.Requirements(**required), node, extender), report
    )


def of_cluster(nodes: Document, probe: Document) -> Document:
    """Return the verdict on the API and on the scheduler's answer to the probe."""
    return checks.verdict(scheduler_probe.checks(nodes, probe))


def with_lost(verdicts: Document, lost: list[str]) -> Document:
    """Add the hosts that failed before their checks."""
    reason = "it failed earlier in this play: see the error above"
    return verdicts | {host: checks.not_examined(reason) for host in lost if host not in verdicts}


def _reason(result: Document) -> str:
    """Return why there is no report, with the messages of Ansible and of the host, in one line."""
    message = " ".join(f"{result.get('msg', '')} {result.get('module_stderr', '')}".split())
    if result.get("unreachable"):
        return f"unreachable ({message}): check ansible_host, the SSH key and the network"
    return f"its report could not be gathered ({message}): check its Python and the login of this user"
