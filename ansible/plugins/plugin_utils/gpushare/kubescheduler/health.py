# Copied from gpushare/kubescheduler/health.py by `make generate`; change it there.
"""The health URLs of a static pod, from its manifest. Pure."""

from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.kubescheduler.static_pod import Object, flag_value, words_of

_PROBES = ("livenessProbe", "readinessProbe")
_EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not bound to
_SECURE_PORT = "10259"


def health_urls(pod: Object, program: str) -> list[list[str]]:
    """Groups of URLs: the health endpoint of the program, and each probe. One URL per group must answer 200.

    Control plane components serve /livez, older ones /healthz. Probes other than HTTP are ignored.
    """
    container = next(each for each in pod["spec"]["containers"] if _runs(each, program))
    port = flag_value(container, "--secure-port") or _SECURE_PORT
    base = _base("https", _host(container), port)
    own = [[f"{base}/livez", f"{base}/healthz"]] if port != "0" else []
    gets = [(container.get(probe) or {}).get("httpGet") for probe in _PROBES]
    probes = [_url(container, get) for get in gets if get]
    return [*own, *([each] for each in dict.fromkeys(probes))]


def _runs(container: Object, program: str) -> bool:
    return container.get("name") == program or program in words_of(container)


def _url(container: Object, get: Object) -> str:
    scheme = str(get.get("scheme", "HTTP")).lower()
    base = _base(scheme, get.get("host") or _host(container), _port(container, get["port"]))
    return f"{base}{get.get('path', '/')}"


def _base(scheme: str, host: str, port: int | str) -> str:
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _port(container: Object, port: int | str) -> int | str:
    """The port number; a probe may use the name of a container port."""
    ports = container.get("ports") or []
    named: dict[int | str, int] = {each.get("name"): each["containerPort"] for each in ports}
    return named.get(port, port)


def _host(container: Object) -> str:
    """The address on which the program listens, in the network of the host."""
    bound = flag_value(container, "--bind-address") or ""
    return "127.0.0.1" if bound in _EVERYWHERE else bound
