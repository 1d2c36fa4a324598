from pathlib import Path

from structlog.testing import capture_logs

from gpushare.deviceplugin.kubelet.client import kubelet_client


async def test_a_kubelet_that_does_not_answer_is_logged_once(tmp_path: Path) -> None:
    client = kubelet_client(None, tmp_path / "kubelet.sock")
    with capture_logs() as logs:
        for _ in range(2):
            assert await client.names() is None
    assert [each["event"] for each in logs] == ["kubelet_not_read"]
