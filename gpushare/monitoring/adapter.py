"""Rules of prometheus-adapter that serve our metrics to autoscalers, as in the ACK documentation.

Only the adapter's configuration belongs here; our metrics API needs no adapter.
The format is that of ``sigs.k8s.io/prometheus-adapter``; ``<<.Series>>`` etc. are its templates.
"""

from typing import Any, Final

from gpushare.monitoring import catalogue as names

_NODE: Final = {"NodeName": {"resource": "node"}}
_POD: Final = {"NamespaceName": {"resource": "namespace"}, "PodName": {"resource": "pod"}}
_SERIES: Final = "<<.Series>>{<<.LabelMatchers>>}"
_BY: Final = "by (<<.GroupBy>>)"


def document() -> dict[str, Any]:
    """Return the adapter's configuration file."""
    share = {
        **_rule(
            f'{names.DCGM_PROCESS_MEM_USED}{{NamespaceName!="",PodName!=""}}',
            f"sum({_SERIES}) {_BY} / sum({names.DCGM_CONTAINER_MEM_ALLOCATED}{{}}) {_BY}",
            _POD,
        ),
        "name": {"matches": "^(.*)_MEM_USED", "as": "${1}_GPU_MEM_USED_RATIO"},
    }
    return {
        "rules": [
            _rule(f"{names.DCGM_GPU_UTIL}{{}}", f"avg({_SERIES}) {_BY}", _NODE),
            _rule(f"{names.DCGM_PROCESS_SM_UTIL}{{}}", f"avg({_SERIES}) {_BY}", {**_POD, **_NODE}),
            _rule(f"{names.DCGM_FB_USED}{{}}", f"sum({_SERIES}) {_BY}", _NODE),
            _rule(f"{names.DCGM_PROCESS_MEM_USED}{{}}", f"sum({_SERIES}) {_BY}", {**_POD, **_NODE}),
            share,
        ]
    }


def _rule(series: str, query: str, labels: dict[str, Any]) -> dict[str, Any]:
    return {"seriesQuery": series, "metricsQuery": query, "resources": {"overrides": labels}}
