"""The board in a cluster: account, roles and server."""

from components.config_monitoring import Board
from components.manifests import https_server
from components.manifests.https_server import Server
from components.manifests.parts import Object, account_with_rights, rule
from gpushare.contract import BOARD_NAME, BOARD_OPS_PORT, BOARD_PORT, EXTENDER_NAME
from gpushare.kubescheduler.config import KubernetesVersion


def objects(settings: Board, version: KubernetesVersion, prometheus: str | None = None) -> list[Object]:
    """All objects of the board; ``prometheus`` is the URL of that of the stack."""
    return [
        *account_with_rights(
            BOARD_NAME,
            [
                rule("", ["nodes", "pods"], ["list", "watch"]),
                rule("", ["resourcequotas"], ["list"]),
                # Those of `system:auth-delegator`.
                rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
                rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
            ],
            [
                # In these the node agents report unhealthy GPUs.
                rule("", ["configmaps"], ["list"]),
                # Whether an extender leads.
                rule("coordination.k8s.io", ["leases"], ["get"], names=[EXTENDER_NAME]),
            ],
        ),
        *https_server.objects(_server(settings, prometheus), settings, version),
    ]


def _server(settings: Board, prometheus: str | None) -> Server:
    return Server(
        name=BOARD_NAME,
        image=settings.image,
        command=["gpushare", "board-server"],
        port=BOARD_PORT,
        ops_port=BOARD_OPS_PORT,
        replicas=1,  # it remembers the last hour
        options={"prometheus_url": prometheus},
        has_token=True,
    )
