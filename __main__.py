"""The Pulumi program: decodes the configuration, creates the components and exports the outputs."""

import pulumi
from pulumi_kubernetes import Provider

from components.engine import compare_with_cluster, configuration, kubeconfig_of
from components.kubeconfig import with_context
from components.resources import GpuShare
from components.stack import load
from gpushare.errors import ConfigError

try:
    stack = with_context(load(configuration()))
    compare_with_cluster(stack)
except ConfigError as error:
    raise pulumi.RunError(str(error)) from error

# A changed ConfigMap is updated; the provider would replace it, and its name would not exist for a moment.
access = {
    "kubeconfig": kubeconfig_of(stack),
    "context": stack.context or None,
    # Without it, a new address or CA of the same cluster would replace every object.
    "cluster_identifier": stack.cluster_uid or None,
    "enable_config_map_mutable": True,
}
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
