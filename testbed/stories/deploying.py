"""Deploying our services on a bed as users do: with Pulumi, or without it from the very same objects.

What belongs here: the configuration and the two ways. What does not: the cluster (``deployed``)
and what the objects are (``components``).
"""

from collections.abc import Awaitable, Callable, Mapping

from components.manifests import everything
from components.render import as_yaml
from components.stack import load
from release import Images
from testbed.control_plane.bed import Bed
from testbed.pulumi import Stack, old_tokens

Deploy = Callable[[Bed, Mapping[str, object]], Awaitable[list[str]]]
"""Deploys a configuration and returns what it made: "<kind>/<namespace>/<name>"."""


def configuration(images: Images, labels: Mapping[str, str]) -> dict[str, object]:
    """Our services from these images; agent and exporter on nodes with these labels."""
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
    """``pulumi up`` with the real engine."""
    await old_tokens(bed)
    stack = await Stack.create(bed, configuration)
    return list((await stack.up()).changes)


async def by_kubectl(bed: Bed, configuration: Mapping[str, object]) -> list[str]:
    """``kubectl apply`` of what ``components.render`` prints."""
    text = await bed.apply(as_yaml(everything(load(configuration))))
    return [line.split()[0] for line in text.splitlines()]
