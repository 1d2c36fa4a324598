"""Deploys our services on a testbed as users do: with Pulumi, or with kubectl from the same objects.

What belongs here: the configuration and the two ways to deploy it. What does not: the cluster
(``deployed``) and the objects (``components``).
"""

from collections.abc import Awaitable, Callable, Mapping

from components.manifests import everything
from components.render import as_yaml
from components.stack import load
from release import Images
from testbed.control_plane.bed import Bed
from testbed.pulumi import Stack, old_tokens

Deploy = Callable[[Bed, Mapping[str, object]], Awaitable[list[str]]]
"""Deploys a configuration and returns the created objects: "<kind>/<namespace>/<name>"."""


def configuration(images: Images, labels: Mapping[str, str]) -> dict[str, object]:
    """Return the configuration of our services; ``labels`` select the nodes of agent and exporter."""
    return {
        "kubernetesVersion": "1.36",
        "extender": {"image": images.references["extender"]},
        "devicePlugins": [{"image": images.references["device-plugin"], "nodeSelector": dict(labels)}],
        "isolation": {"image": images.references["isolation"]},
        "monitoring": {
            "exporter": {
                "image": images.references["exporter"],
                "nodeLabels": [f"{key}={value}" for key, value in labels.items()],
                "intervalSeconds": 1,
            }
        },
    }


async def by_pulumi(bed: Bed, configuration: Mapping[str, object]) -> list[str]:
    """Deploy by ``pulumi up`` with the real engine."""
    await old_tokens(bed)
    stack = await Stack.create(bed, configuration)
    return list((await stack.up()).changes)


async def by_kubectl(bed: Bed, configuration: Mapping[str, object]) -> list[str]:
    """Deploy by ``kubectl apply`` of the output of ``components.render``."""
    text = await bed.apply(as_yaml(everything(load(configuration))))
    return [line.split()[0] for line in text.splitlines()]
