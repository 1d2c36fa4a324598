"""The Pulumi program: decodes the configuration, creates the components and exports the outputs."""

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

access = {"kubeconfig": kubeconfig_of(stack), "context": stack.context or None}
# The stack owns its objects: manual changes are reverted, not a conflict.
cluster = Provider("cluster", **access, enable_patch_force=True, upsert_existing_objects=stack.adopt or None)
# Shared objects may already exist; fields of other managers are a conflict.
shared = Provider("shared", **access, upsert_existing_objects=True)
# The stack did not create adopted objects, so it does not delete them.
options = pulumi.ResourceOptions(providers=[cluster], retain_on_delete=stack.adopt or None)
made = GpuShare("gpushare", stack, options, shared=shared)

pulumi.export("objects", made.names)
pulumi.export("images", made.images)
pulumi.export("extenderUrl", made.extender_url)
