"""What kubectl shows to a user who applies a manifest."""

from components.render import as_yaml
from devkit.errors import DevkitError
from testbed import Bed
from testbed.control_plane.api import Object


async def warnings_of(bed: Bed, manifest: Object) -> str:
    """The warnings of the API server about an object that is not created; empty without one."""
    try:
        await bed.kubectl(
            "apply", "--dry-run=server", "--warnings-as-errors", "-f", "-", stdin=as_yaml([manifest])
        )
    except DevkitError as error:
        return str(error)
    return ""
