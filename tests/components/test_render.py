from itertools import chain
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from components.manifests import RETAINED, everything
from components.render import as_yaml, command
from components.stack import from_file, load
from gpushare.contract import EXTENDER_NAME, MPS_NAME, SYSTEM_NAMESPACE
from tests.components.snapshot import SNAPSHOTS, files
from tests.support.builders.stacks import STACKS


def render(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def test_the_objects_of_the_stacks_equal_the_snapshots() -> None:
    stored = {path.name: path.read_text() for path in SNAPSHOTS.iterdir()}
    for name, text in (made := files()).items():
        assert text == stored.get(name, ""), f"{name}; if the change is meant: make generate"
    assert stored.keys() == made.keys()


@pytest.mark.parametrize("name", STACKS)
def test_the_command_prints_the_objects_of_the_stack(name: str) -> None:
    shown = render("--config", str(STACKS[name]))
    assert shown.exit_code == 0, shown.output
    assert list(yaml.safe_load_all(shown.output)) == everything(load(from_file(STACKS[name])))


@pytest.mark.parametrize("name", STACKS)
def test_each_object_is_in_one_half_and_what_a_prune_would_lose_in_the_kept_one(name: str) -> None:
    halves = [
        list(yaml.safe_load_all(render("--config", str(STACKS[name]), "--only", half).output))
        for half in ("kept", "removable")
    ]
    whole = everything(load(from_file(STACKS[name])))
    assert [each for each in whole if each in halves[0]] == halves[0]
    assert [each for each in whole if each not in halves[0]] == halves[1]
    for each in halves[1]:
        # `kubectl apply --namespace kube-system` accepts no other namespace.
        assert each["metadata"].get("namespace", SYSTEM_NAMESPACE) == SYSTEM_NAMESPACE
        assert each["kind"] not in RETAINED
        assert (each["kind"], each["metadata"]["name"]) != ("DaemonSet", MPS_NAME)


@pytest.mark.parametrize("name", STACKS)
def test_the_stages_together_are_all_objects(name: str) -> None:
    stages = [
        list(yaml.safe_load_all(render("--config", str(STACKS[name]), "--only", stage).output))
        for stage in ("certificates", "extender", "others")
    ]
    whole = everything(load(from_file(STACKS[name])))
    assert sorted(map(str, chain(*stages))) == sorted(map(str, whole))
    for each in stages[2]:
        assert (each["kind"], each["metadata"]["name"]) != ("Deployment", EXTENDER_NAME)


def test_lists_are_indented_and_texts_of_many_lines_are_blocks() -> None:
    assert as_yaml([{"args": ["--a", "--b"], "data": {"file": "one\ntwo\n"}}]) == (
        "---\nargs:\n  - --a\n  - --b\ndata:\n  file: |\n    one\n    two\n"
    )


def test_the_version_on_the_command_line_overrides_the_configuration() -> None:
    stack = str(STACKS["node-port"])
    old = render("--config", stack, "--kubernetes-version", "1.18")
    budgets = [
        each["apiVersion"] for each in yaml.safe_load_all(old.output) if each["kind"] == "PodDisruptionBudget"
    ]
    assert set(budgets) == {"policy/v1beta1"}
    assert "seccompProfile" not in old.output


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("config: {gpushare:extendr: {}}", "extendr: unknown key; use one of kubernetesVersion, extender"),
        ("config: {gpushare:kubernetesVersion: '1.36'}", "extender: missing"),
        ("config: {extendr: {}}", "extendr: unknown key; use one of kubernetesVersion, extender"),
        ("config:\n  gpushare:mps: {}\n  gpushare:mps: {}\n", "line 3: key 'gpushare:mps' is there twice"),
        ("config: {gpushare:devicePlugins: [{cpu: '1', cpu: '2'}]}", "line 1: key 'cpu' is there twice"),
        ("config: [", "is not YAML"),
        ("just text", "has no mapping 'config'"),
    ],
)
def test_an_error_is_one_line_and_exit_status_2(tmp_path: Path, text: str, problem: str) -> None:
    stack = tmp_path / "Pulumi.bad.yaml"
    stack.write_text(text)
    result = render("--config", str(stack))
    assert result.exit_code == 2
    assert result.output.startswith(f"render: {stack}: {problem}")
    assert result.output.count("\n") == 1


def test_an_encrypted_kubeconfig_is_not_needed_and_other_secrets_are_an_error(tmp_path: Path) -> None:
    stack = tmp_path / "Pulumi.secret.yaml"
    example = STACKS["example"].read_text()
    stack.write_text(f"{example}  gpushare:kubeconfig: {{secure: AAAB}}\n")
    assert render("--config", str(stack)).exit_code == 0
    stack.write_text(f"{example}  gpushare:registry: {{secure: AAAB}}\n")
    assert render("--config", str(stack)).output == (
        f"render: {stack}: registry: is encrypted, and only Pulumi can decrypt it; set it without --secret\n"
    )


def test_dates_and_words_keep_their_meaning_for_kubectl(tmp_path: Path) -> None:
    stack = tmp_path / "Pulumi.labels.yaml"
    example = STACKS["example"].read_text()
    stack.write_text(f"{example}  gpushare:annotations: {{date: 2024-01-01, accept: 'y'}}\n")
    result = render("--config", str(stack))
    assert result.exit_code == 0, result.output
    assert "date: '2024-01-01'\n" in result.output
    assert "accept: 'y'\n" in result.output


def test_keys_without_a_namespace_are_those_of_the_project_as_for_pulumi(tmp_path: Path) -> None:
    stack = tmp_path / "Pulumi.short.yaml"
    example = STACKS["example"].read_text()
    stack.write_text(f"{example}  annotations: {{example.com/team: platform}}\n  kubernetes:context: west\n")
    result = render("--config", str(stack))
    assert result.exit_code == 0, result.output
    assert "example.com/team: platform\n" in result.output


def test_a_missing_stack_file_is_an_error(tmp_path: Path) -> None:
    result = render("--config", str(tmp_path / "absent.yaml"))
    assert (result.exit_code, result.output) == (
        2,
        f"render: {tmp_path / 'absent.yaml'}: cannot be read: No such file or directory\n",
    )
