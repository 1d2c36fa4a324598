"""What Pulumi's provider is told about an object."""

from components.annotations import annotated
from components.manifests.parts import Object


def marks(kind: str, annotations: dict[str, str] | None = None) -> dict[str, str]:
    metadata: Object = {"name": "a", **({"annotations": annotations} if annotations else {})}
    made: dict[str, str] = annotated({"kind": kind, "metadata": metadata})["metadata"]["annotations"]
    return made


def test_every_object_has_the_same_field_manager_in_every_state_of_the_engine() -> None:
    assert marks("Namespace") == {"pulumi.com/patchFieldManager": "gpushare"}


def test_a_node_that_is_down_delays_nothing() -> None:
    assert marks("DaemonSet")["pulumi.com/skipAwait"] == "true"
    assert "pulumi.com/skipAwait" not in marks("Deployment")


def test_what_is_deleted_without_a_wait_is_gone_at_once() -> None:
    """The provider would find it terminating when the stack returns, and report that it exists."""
    assert marks("DaemonSet")["pulumi.com/deletionPropagationPolicy"] == "background"


def test_annotations_of_the_stack_win() -> None:
    own = {"pulumi.com/skipAwait": "false", "team": "a"}
    assert marks("PersistentVolumeClaim", own) == {"pulumi.com/patchFieldManager": "gpushare", **own}


def test_the_rendered_object_stays_as_it_is() -> None:
    rendered = {"kind": "DaemonSet", "metadata": {"name": "a"}}
    annotated(rendered)
    assert rendered == {"kind": "DaemonSet", "metadata": {"name": "a"}}
