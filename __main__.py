"""The Pulumi program: one stack's configuration to settings, settings to components, names to outputs."""

import pulumi
from pulumi.runtime.config import CONFIG
from pulumi_kubernetes import Provider

from components.resources import GpuShare, kubeconfig_of
from components.stack import from_engine, load
from gpushare.errors import ConfigError

try:
    stack = load(from_engine(CONFIG.get()))
except ConfigError as error:
    raise pulumi.RunError(str(error)) from error

way = {"kubeconfig": kubeconfig_of(stack), "context": stack.context or None}
# The stack's objects are its own: what somebody edits by hand is mended, not a conflict.
cluster = Provider("cluster", **way, enable_patch_force=True, upsert_existing_objects=stack.adopt or None)
# Objects that others use, too, may exist already; what somebody else set in them is a conflict.
shared = Provider("shared", **way, upsert_existing_objects=True)
# What was taken over was not made by the stack, so the stack does not delete it.
options = pulumi.ResourceOptions(providers=[cluster], retain_on_delete=stack.adopt or None)
made = GpuShare("gpushare", stack, options, shared=shared)

pulumi.export("objects", made.names)
pulumi.export("images", made.images)
pulumi.export("extenderUrl", made.extender_url)
