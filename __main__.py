"""The Pulumi program: one stack's configuration to settings, settings to components, names to outputs."""

import pulumi
from pulumi.runtime.config import CONFIG
from pulumi_kubernetes import Provider

from components.resources import GpuShare
from components.stack import from_engine, load
from gpushare.errors import ConfigError

try:
    settings = load(from_engine(CONFIG.get()))
except ConfigError as error:
    raise pulumi.RunError(str(error)) from error

cluster = Provider("cluster", kubeconfig=settings.kubeconfig or None, context=settings.context or None)
stack = GpuShare("gpushare", settings, pulumi.ResourceOptions(providers=[cluster]))

pulumi.export("objects", stack.names)
