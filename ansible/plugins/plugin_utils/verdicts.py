"""Verdicts on hosts and cluster, from what Ansible's modules returned. Pure."""

from ansible_collections.gpushare.nodes.plugins.plugin_utils import (
    checks,
    preflight,
    scheduler_probe,
    validation,
)

Document = checks.Document


def of_preflight(result: Document, terms: Document) -> Document:
    """Judge what host_report returned before anything is changed."""
    if "report" not in result:
        return checks.not_examined(_reason(result))
    report = result["report"]
    return checks.verdict(preflight.checks(report, preflight.Terms(**terms)), report)


def of_validation(result: Document, terms: Document, node: Document, extender: Document) -> Document:
    """Judge what host_report (deep) returned, with the host's node of the API and the extender's answer."""
    if "report" not in result:
        return checks.not_examined(_reason(result))
    report = result["report"]
    return checks.verdict(validation.checks(report, validation.Terms(**terms), node, extender), report)


def of_cluster(nodes: Document, probe: Document) -> Document:
    """Judge the cluster by its API and by the scheduler's answer to the probe."""
    return checks.verdict(scheduler_probe.checks(nodes, probe))


def with_lost(verdicts: Document, lost: list[str]) -> Document:
    """Add the hosts that failed before they were looked at."""
    reason = "it failed earlier in this play: see the error above"
    return verdicts | {host: checks.not_examined(reason) for host in lost if host not in verdicts}


def _reason(result: Document) -> str:
    """Unreachable, or no module could run there: in Ansible's and the host's own words, in one line."""
    said = " ".join(f"{result.get('msg', '')} {result.get('module_stderr', '')}".split())
    if result.get("unreachable"):
        return f"unreachable ({said}): see ansible_host, the SSH key and the network"
    return f"its report could not be gathered ({said}): does it have Python, and may this user log in?"
