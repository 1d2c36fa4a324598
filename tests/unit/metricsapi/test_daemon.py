"""The metrics API as it is wired, without its servers."""

from pathlib import Path

from gpushare.adapters.http_client import HttpClient
from gpushare.adapters.kube.access import ApiAccess
from gpushare.adapters.kube.client import KubeClient
from gpushare.metricsapi.access import ServerAuth
from gpushare.metricsapi.daemon import MetricsApiDaemon
from gpushare.runtime.certificates import expiry_of
from testbed.control_plane.pki import Authority
from tests.unit.metricsapi.test_main import settings

EXPIRY = "gpushare_metrics_api_certificate_expiration_timestamp_seconds"


def test_the_end_of_the_certificate_that_is_served_is_a_metric(tmp_path: Path) -> None:
    Authority.create("ca").server("metrics-api", ["127.0.0.1"]).write(tmp_path, "tls")
    cert, key = (str(tmp_path / f"tls.{end}") for end in ("crt", "key"))
    client = KubeClient(ApiAccess(host="http://127.0.0.1:1"))
    flags = settings(f"--tls-cert={cert}", f"--tls-key={key}")
    daemon = MetricsApiDaemon(flags, client, HttpClient(timeout_s=1), ServerAuth(cert, key))
    served = daemon.metrics.registry.get_sample_value(EXPIRY)
    assert served == expiry_of((tmp_path / "tls.crt").read_text())
