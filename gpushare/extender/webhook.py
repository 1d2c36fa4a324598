"""``gpushare scheduler-name``: the webhook that names the scheduler of new pods, before Kubernetes 1.36.

It runs apart from the extender: the API server shows no client certificate, so every pod can call it.
"""

from collections.abc import Callable
from typing import Final

import structlog
from prometheus_client import CollectorRegistry

from gpushare.contract import SCHEDULER_NAMING_PATH
from gpushare.errors import InvalidRequest
from gpushare.extender.scheduler_name import reviewed
from gpushare.extender.settings import WebhookSettings
from gpushare.monitoring.catalogue import NAMING_CERTIFICATE_EXPIRY
from gpushare.monitoring.families import daemon_registry, gauge
from gpushare.runtime.admin_server import AdminRoutes, rendering
from gpushare.runtime.daemon import serve, stop_event
from gpushare.runtime.flags import check_api_service, run_daemon
from gpushare.runtime.http import Handler, Request, Response, no_route, text_response, wrong_method
from gpushare.runtime.listener import bind_socket
from gpushare.runtime.rate import refusal_log
from gpushare.runtime.server import HttpServer
from gpushare.runtime.settings import settings_command
from gpushare.runtime.tls import ServerTls

log = structlog.get_logger()

_MAX_BODY_BYTES: Final = 4 * 2**20
"""More than the API server stores of a pod."""
_EXAMPLES: Final = """\b
Examples:
  gpushare scheduler-name --scheduler-name gpushare-scheduler --tls-cert tls.crt --tls-key tls.key"""


@settings_command(WebhookSettings, epilog=_EXAMPLES)
def command(settings: WebhookSettings) -> None:
    """Serve the webhook that sets schedulerName of pods that request GPU memory and name no scheduler."""
    run_daemon("scheduler-name", settings, run, check=check_api_service)


async def run(settings: WebhookSettings) -> None:
    """Serve until SIGTERM or SIGINT. Raises ConfigError if the webhook cannot start."""
    stop = stop_event()
    tls = ServerTls(settings.tls_cert, settings.tls_key)
    with (
        bind_socket(settings.host, settings.port) as listener,
        bind_socket(settings.ops_host, settings.ops_port) as ops_listener,
    ):
        admin = AdminRoutes(
            rendering(registry_of(lambda: tls.expires_at)), live=lambda: None, ready=lambda: None
        )
        server = HttpServer(routes(settings.scheduler_name), max_body=_MAX_BODY_BYTES, tls=tls.context)
        ports = {"port": listener.getsockname()[1], "ops_port": ops_listener.getsockname()[1]}
        log.info("started", **ports, scheduler=settings.scheduler_name)
        await serve(stop, (admin, ops_listener), [tls.run()], servers=[(server, listener)])


def registry_of(expires_at: Callable[[], float]) -> CollectorRegistry:
    """The metrics of the webhook; ``expires_at`` returns the end of its certificate in Unix seconds."""
    registry = daemon_registry()
    gauge(NAMING_CERTIFICATE_EXPIRY, registry).set_function(expires_at)
    return registry


def routes(scheduler: str) -> Handler:
    """The path of the webhook."""
    log_rate = refusal_log()

    def handle(request: Request) -> Response:
        if request.path != SCHEDULER_NAMING_PATH:
            return no_route(request, {SCHEDULER_NAMING_PATH})
        return answer(request.body) if request.method == "POST" else wrong_method("POST")

    def answer(body: bytes | None) -> Response:
        if body is None:
            return text_response(f"request body is larger than {_MAX_BODY_BYTES} bytes", 413)
        try:
            return Response(reviewed(body, scheduler))
        except InvalidRequest as error:
            if log_rate.take("review_refused"):
                log.warning("review_refused", reason=str(error))
            return text_response(str(error), 400)

    return handle
