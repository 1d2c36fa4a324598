"""The steps of the pipeline are targets of the Makefile."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from release import recipe
from tools.suite import run, tiers

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = {
    option: set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / folder / "Makefile").read_text(), re.MULTILINE))
    for folder, option in (("", ""), ("release", "-C release "))
}
SUDO = "sudo --preserve-env=GPUSHARE_CACHE,GPUSHARE_REQUIRE_ALL"
PINNED = re.compile(r"^\s+(?:- )?uses: \S+@[0-9a-f]{40} # v[0-9.]+$")


def steps() -> Iterator[dict[str, Any]]:
    for file in FILES:
        for job in yaml.safe_load(file.read_text())["jobs"].values():
            yield from job["steps"]


JOBS = {
    f"{file.stem} {name}": job
    for file in FILES
    for name, job in yaml.safe_load(file.read_text())["jobs"].items()
}


def expanded(job: dict[str, Any]) -> list[list[str]]:
    """The commands of each job that the matrix makes, without sudo."""
    steps = job.get("strategy", {}).get("matrix", {}).get("step", [""])
    runs = [step["run"].removeprefix(f"{SUDO} ") for step in job["steps"] if "run" in step]
    return [[run.replace("${{ matrix.step }}", step) for run in runs] for step in steps]


@pytest.mark.parametrize(
    "command", sorted({run for job in JOBS.values() for runs in expanded(job) for run in runs})
)
def test_a_step_is_one_make_target_that_exists(command: str) -> None:
    words = r'(?: [A-Z]+=\S+)*(?: >> "\$GITHUB_OUTPUT")?'
    found = re.fullmatch(rf"(?:{SUDO} )?make (?:--silent )?(-C release )?([a-z-]+){words}", command)
    assert found is not None
    assert found[2] in TARGETS[found[1] or ""]


@pytest.mark.parametrize(
    "line", [line for file in FILES for line in file.read_text().splitlines() if "uses:" in line]
)
def test_actions_are_pinned_by_commit(line: str) -> None:
    assert PINNED.match(line)


def test_images_from_a_registry_are_built_on_the_base_of_the_containerfile() -> None:
    assert {job["env"]["BASE_IMAGE"] for job in JOBS.values() if "BASE_IMAGE" in job.get("env", {})} == {
        recipe.PINNED
    }


@pytest.mark.parametrize("step", [step for step in steps() if "pulumi/actions@" in step.get("uses", "")])
def test_the_engine_has_the_version_of_the_sdk(step: dict[str, Any]) -> None:
    version = step["with"]["pulumi-version"]
    assert f'name = "pulumi"\nversion = "{version}"\n' in (ROOT / "uv.lock").read_text()


TRUSTED = "github.event_name == 'push' && github.ref == 'refs/heads/main'"
SCHEDULED = "github.event_name == 'schedule' && github.ref == 'refs/heads/main'"
"""Of the main branch only, which alone has a schedule."""


def is_trusted(name: str) -> bool:
    """Whether no code of a pull request runs in the job."""
    return name.startswith("release ") or JOBS[name].get("if") in (TRUSTED, SCHEDULED)


@pytest.mark.parametrize("name", JOBS)
def test_the_code_of_a_pull_request_gets_no_credentials(name: str) -> None:
    job = JOBS[name]
    text = json.dumps(job)
    if not is_trusted(name):
        assert "secrets." not in text
        assert "permissions" not in job
        assert job["runs-on"] == "ubuntu-24.04"


@pytest.mark.parametrize(
    "name", [name for name, job in JOBS.items() if "PULUMI_BACKEND_URL" in job.get("env", {})]
)
def test_a_cluster_is_reached_from_the_main_branch_and_behind_an_environment_only(name: str) -> None:
    assert JOBS[name]["if"] in (TRUSTED, SCHEDULED)
    assert JOBS[name]["environment"]


def test_no_workflow_runs_on_events_that_give_a_pull_request_the_rights_of_the_main_branch() -> None:
    for file in FILES:
        document = yaml.safe_load(file.read_text())
        # YAML 1.1 reads the key `on` as true.
        assert not {"pull_request_target", "workflow_run", "issue_comment"} & set(document[True])
        assert document["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("step", [step for step in steps() if "checkout@" in step.get("uses", "")])
def test_no_token_is_left_in_a_checkout(step: dict[str, Any]) -> None:
    assert step["with"]["persist-credentials"] is False


def test_the_pipeline_runs_the_steps_of_make_test_in_jobs_of_their_own_as_root_without_skips() -> None:
    job = JOBS["pipeline test"]
    assert job["strategy"]["fail-fast"] is False
    assert all(step["run"].startswith(SUDO) for step in job["steps"] if "run" in step)
    plan = run.Plan(tiers.short(tiers.read()))
    steps = [*plan.fast, *(step for row in plan.real for step in row)]
    targets = {step.target for step in steps if step.target != "test-gpu"}
    commands = expanded(job)
    assert {command.split()[1] for _, command in commands} == targets
    tiered = {step.target for step in steps if "SHORT=1" in step.variables}
    assert {command.split()[1] for _, command in commands if command.endswith(" SHORT=1")} == tiered
    # Tests of fast steps need programs of packages too, and no step but these installs them.
    assert {packages for packages, _ in commands} == {"make packages"}


def test_all_tests_run_nightly_and_before_a_release() -> None:
    assert expanded(JOBS["nightly test-all"]) == [["make test-all"]]
    assert expanded(JOBS["release check"]) == [["make -C release check-tag", "make test-all"]]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_test_that_the_machine_cannot_run_is_a_failure(file: Path) -> None:
    assert yaml.safe_load(file.read_text())["env"]["GPUSHARE_REQUIRE_ALL"] == "1"


@pytest.mark.parametrize("step", [step for step in steps() if "/cache/" in step.get("uses", "")])
def test_the_cache_has_what_the_user_of_the_runner_can_read(step: dict[str, Any]) -> None:
    """What root wrote elsewhere in the cache is for root alone: keys and file systems of hosts."""
    assert step["with"]["path"] == "${{ env.GPUSHARE_CACHE }}/bin"


def test_the_path_of_the_cache_has_no_parent_segment() -> None:
    """Patterns of @actions/glob must not have one."""
    assert not [file for file in FILES if ".." in yaml.safe_load(file.read_text())["env"]["GPUSHARE_CACHE"]]


def test_a_release_is_made_behind_an_environment_after_its_tag_is_checked() -> None:
    checks = [step.get("run") for step in JOBS["release check"]["steps"]]
    assert "make -C release check-tag" in checks
    assert (JOBS["release release"]["needs"], JOBS["release release"]["environment"]) == ("check", "release")


@pytest.mark.parametrize("name", ["pipeline provenance", "weekly scan"])
def test_every_image_gets_its_provenance_and_is_scanned(name: str) -> None:
    matrix = JOBS[name]["strategy"]["matrix"]["service"]
    assert matrix == recipe.services((ROOT / "Containerfile").read_text())


def test_the_images_of_the_week_are_scanned_on_the_published_base_and_with_the_packages_of_today() -> None:
    jobs = [JOBS[f"weekly {name}"] for name in JOBS["weekly scan"]["strategy"]["matrix"]["images"]]
    assert [bool(job.get("env", {}).get("BASE_IMAGE")) for job in jobs] == [True, False]
    assert [
        f"{SUDO} make images REFRESH=1" in [step.get("run") for step in job["steps"]] for job in jobs
    ] == [
        False,
        True,
    ]


def test_drift_is_compared_with_the_images_that_the_pipeline_publishes() -> None:
    """Equal settings give equal digests."""
    published = {name: value for name, value in JOBS["pipeline publish"]["env"].items() if name != "PUSH"}
    assert JOBS["drift images"]["env"] == published
    assert expanded(JOBS["drift compare"]) == [["make drift"]]
