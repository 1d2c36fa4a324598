"""Prepares a cluster for the old official provider of the tool table.

What does not belong here: running the provider (``testbed.pulumi.stack``).
"""

from devkit.waiting import until
from testbed.control_plane.bed import Bed

_OLD_TOKENS = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: old-tokens}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
      - {apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["serviceaccounts"]}
  mutations:
    - patchType: JSONPatch
      jsonPatch:
        expression: '[JSONPatch{op: "add", path: "/secrets", value: [{"name": "old-token"}]}]'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: old-tokens}
spec: {policyName: old-tokens}
"""


async def old_tokens(bed: Bed) -> None:
    """Create every ServiceAccount with the name of a Secret, as the API server did before 1.24.

    The old official provider waits for the name.
    """
    await bed.apply(_OLD_TOKENS)
    path = "/api/v1/namespaces/default/serviceaccounts"

    async def named() -> bool:
        made = await bed.api.create(path, {"metadata": {"name": "probe"}})
        await bed.api.delete(f"{path}/probe")
        return "secrets" in made

    await until(named, "the policy to be in force")
