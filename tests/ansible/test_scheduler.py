"""The configuration of kube-scheduler from the variables of the role scheduler_extender."""

import json

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils import scheduler
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.errors import ConfigError

EXTENDER = {"url": "http://127.0.0.1:32766/gpushare-scheduler", "weight": 5, "http_timeout_s": 5, "tls": {}}


def test_a_tls_file_that_is_not_in_the_pod_is_refused() -> None:
    tls = {"ca_file": "/etc/ssl/ca.crt"}
    with pytest.raises(ConfigError, match=r"/etc/ssl/ca.crt is not in /etc/kubernetes/gpushare"):
        scheduler.extender_config({**EXTENDER, "tls": tls})


def test_a_second_scheduler_has_a_separate_name_and_lease() -> None:
    options = {"kubernetes_version": "1.36", "name": "gpushare-scheduler", "kubeconfig": ""}
    document = json.loads(scheduler.configuration(EXTENDER, options))
    assert document["profiles"] == [{"schedulerName": "gpushare-scheduler"}]
    assert document["leaderElection"]["resourceName"] == "gpushare-scheduler"
    assert "clientConnection" not in document
