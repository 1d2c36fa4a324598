"""``gpushare extender``: command line."""

import os
import socket
import uuid
from functools import partial
from typing import Final

from gpushare.extender.settings import ExtenderSettings, check, replica_of
from gpushare.runtime.flags import run_daemon
from gpushare.runtime.settings import settings_command

_EXAMPLES: Final = """\b
Examples:
  gpushare extender --kubeconfig ~/.kube/config --host 127.0.0.1
  gpushare extender --tls-cert tls.crt --tls-key tls.key --client-ca ca.crt
  gpushare extender --host 127.0.0.1 --allow-without-lease --log-level debug"""


@settings_command(ExtenderSettings, epilog=_EXAMPLES)
def command(settings: ExtenderSettings) -> None:
    """Serve the calls of kube-scheduler: filter, prioritize, preempt and bind; and inspect."""
    import uvloop

    from gpushare.extender.daemon import run

    replica = replica_of(settings, os.environ, socket.gethostname(), uuid.uuid4().hex[:8])
    run_daemon("extender", settings, partial(run, replica=replica), check=check, loop=uvloop.new_event_loop)
