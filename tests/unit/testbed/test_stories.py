"""The stories as data: what their manifests ask for."""

import pytest

from testbed.stories import STORIES, Story, notebooks, pictures, replicas, sample


@pytest.mark.parametrize(
    ("story", "image"),
    [
        (notebooks(), "docker.io/tensorflow/tensorflow:1.4.1-gpu-py3"),
        (replicas(), "docker.io/tensorflow-samples/cuda-malloc:3G"),
        (sample(), "docker.io/library/gpu-player:v2"),
    ],
    ids=["s0", "s2", "s3"],
)
def test_the_images_of_a_story_are_told_by_their_full_names(story: Story, image: str) -> None:
    assert story.images == [image]


def test_a_story_without_manifests_has_no_images() -> None:
    assert pictures().images == []


def test_the_last_story_has_containers_for_the_person_who_keeps_its_cluster() -> None:
    assert not STORIES[-1]().simulated
