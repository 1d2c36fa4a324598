"""*GPU Tenants*: what each namespace had of the GPUs in the range, what it used, and its quota.

Hours are sums over the recorded series of namespaces, every five minutes. ``kubectl gpushare report`` has
the exact account by workload.
"""

from typing import Final

from gpushare.contract import RESOURCE_MEM
from gpushare.monitoring import rules
from gpushare.monitoring.dashboards.parts import (
    ALL,
    APP_UID,
    CLUSTER_MATCHER,
    CLUSTERS,
    LINES,
    ROWS,
    TENANTS_UID,
    UNITS,
    number,
)
from gpushare.monitoring.panels import (
    OVER_IS_BAD,
    Dashboard,
    DashboardLink,
    Panel,
    PanelRow,
    Steps,
    TableColumn,
    TablePanel,
)

QUOTA: Final = "kube_resourcequota"
"""Of kube-state-metrics: https://github.com/kubernetes/kube-state-metrics/blob/main/docs/metrics/policy."""
_SAME_NAMESPACE: Final = "cluster, namespace"
_NAMESPACE: Final = "{{namespace}}"
_STEPS: Final = "[$__range:5m]"
_PER_HOUR: Final = 12
"""Steps of five minutes."""
_GIB: Final = 2**30
_HOURS: Final = "Hours without data are not counted."


def _over_time(rule: rules.RecordingRule) -> str:
    """The sum over the range in hours."""
    return f"sum by ({_SAME_NAMESPACE}) (sum_over_time({rule}{ALL}{_STEPS})) / {_PER_HOUR}"


def _most(rule: rules.RecordingRule) -> str:
    """The lines with the largest sums, by steps: the samples of 30 days are too many for one query."""
    return f"{rule}{ALL} and topk({LINES}, sum_over_time({rule}{ALL}{_STEPS} @ end()))"


def _quota(kind: str) -> str:
    """The lowest quota of units of each namespace, or what is used of it."""
    selected = f'{{{CLUSTER_MATCHER},resource="requests.{RESOURCE_MEM}",type="{kind}"}}'
    return f"min by ({_SAME_NAMESPACE}) ({QUOTA}{selected})"


_GPU_HOURS: Final = _over_time(rules.NAMESPACE_GPUS)
_USED_GPU_HOURS: Final = _over_time(rules.NAMESPACE_COMPUTE)
_GIB_HOURS: Final = f"{_over_time(rules.NAMESPACE_ALLOCATED)} / {_GIB}"
_USED_GIB_HOURS: Final = f"{_over_time(rules.NAMESPACE_USED)} / {_GIB}"
_IDLE: Final = f"1 - ({_USED_GIB_HOURS}) / ({_GIB_HOURS} > 0)"
_LARGEST: Final = f"topk({ROWS}, {_GPU_HOURS})"
_MOSTLY_IDLE: Final[Steps] = ((0, "green"), (0.8, "orange"))


def _column(title: str, expr: str, unit: str = "none", steps: Steps | None = None) -> TableColumn:
    return TableColumn(title, f"({expr}) and on ({_SAME_NAMESPACE}) {_LARGEST}", unit, steps)


def _bars(title: str, description: str, expr: str) -> Panel:
    return Panel(title, description, f"topk({LINES}, {expr})", "none", _NAMESPACE, "bars")


_SUMS: Final = PanelRow(
    "All namespaces in the range",
    (
        number(
            "GPU-hours allocated",
            "Hours of GPUs that were allocated to pods in the selected range: half of the memory of a GPU "
            f"for two hours is one GPU-hour. {_HOURS}",
            f"sum({_GPU_HOURS})",
            "none",
        ),
        number(
            "GPU-hours used",
            "The same, weighted by the part of the time in which the pods computed. Far below the allocated "
            "hours, GPUs wait for their pods.",
            f"sum({_USED_GPU_HOURS})",
            "none",
        ),
        number(
            "GiB-hours allocated",
            f"GiB of GPU memory allocated to pods, times hours. {_HOURS}",
            f"sum({_GIB_HOURS})",
            "none",
        ),
        number(
            "Idle memory",
            "The part of the allocated GiB-hours that no process used. Above 80 %, pods request far more "
            "than they need: see the table for whose they are.",
            f"1 - sum({_USED_GIB_HOURS}) / (sum({_GIB_HOURS}) > 0)",
            "percentunit",
            _MOSTLY_IDLE,
        ),
    ),
)

_TABLE: Final = PanelRow(
    "Namespaces in the range",
    (
        TablePanel(
            "Namespaces",
            f"What each namespace had and used in the selected range; the {ROWS} with the most GPU-hours. "
            "Idle is the part of the allocated GiB-hours that no process used. Quota and its use are those "
            f"of now, in units of {RESOURCE_MEM}, from kube-state-metrics; without its series in this "
            f"Prometheus, and in namespaces without a ResourceQuota, they are empty. {UNITS} {_HOURS}",
            (("namespace", "Namespace"),),
            (
                _column("GPU-hours", _GPU_HOURS),
                _column("GPU-hours used", _USED_GPU_HOURS),
                _column("GiB-hours", _GIB_HOURS),
                _column("GiB-hours used", _USED_GIB_HOURS),
                _column("Idle", _IDLE, "percentunit", _MOSTLY_IDLE),
                _column("Quota", _quota("hard")),
                _column("Quota used", _quota("used")),
                _column(
                    "Used / quota", f"{_quota('used')} / ({_quota('hard')} > 0)", "percentunit", OVER_IS_BAD
                ),
            ),
            DashboardLink("Namespace in GPU APP", APP_UID, ("namespace",)),
        ),
        _bars(
            "GPU-hours by namespace",
            f"Allocated GPU-hours in the selected range, of the {LINES} namespaces with the most. {_HOURS}",
            _GPU_HOURS,
        ),
    ),
)

_TIME: Final = PanelRow(
    "Over time",
    (
        Panel(
            "GPUs allocated by namespace",
            "GPUs that are allocated to the pods of a namespace; half of the memory of a GPU is half a GPU. "
            f"The {LINES} namespaces with the most.",
            _most(rules.NAMESPACE_GPUS),
            "none",
            _NAMESPACE,
        ),
        Panel(
            "GPUs used by namespace",
            "SM utilization of the pods of a namespace, in GPUs: 2 is two GPUs that compute all the time. "
            f"Far below the allocated GPUs, they wait. The {LINES} namespaces with the most.",
            _most(rules.NAMESPACE_COMPUTE),
            "none",
            _NAMESPACE,
        ),
        Panel(
            "Memory allocated by namespace",
            f"GPU memory allocated to the pods of a namespace, in bytes. The {LINES} namespaces with the "
            "most.",
            _most(rules.NAMESPACE_ALLOCATED),
            "bytes",
            _NAMESPACE,
        ),
        Panel(
            "Memory used by namespace",
            "GPU memory that the pods of a namespace use, in bytes. The "
            f"{LINES} namespaces with the most. If it stays far below the allocated memory, request less.",
            _most(rules.NAMESPACE_USED),
            "bytes",
            _NAMESPACE,
        ),
    ),
)

TENANTS: Final = Dashboard(
    TENANTS_UID,
    "GPU Tenants",
    "What each namespace had of the GPUs, what it used, and its quota.",
    (CLUSTERS,),
    (_SUMS, _TABLE, _TIME),
    begin="now-30d",
    refresh="",
)
