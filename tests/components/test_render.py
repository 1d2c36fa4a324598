from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from components.render import command
from tests.builders.stacks import FOLDER, ROOT, STACKS


def render(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


@pytest.mark.parametrize("name", STACKS)
def test_the_rendered_objects_equal_the_snapshots(name: str) -> None:
    shown = render("--config", str(STACKS[name]))
    snapshot = FOLDER / "snapshots" / f"{name}.yaml"
    stack = STACKS[name].relative_to(ROOT)
    renew = f"python -m components.render --config {stack} > {snapshot.relative_to(ROOT)}"
    assert shown.exit_code == 0, shown.output
    assert shown.output == snapshot.read_text(), f"if the change is meant: {renew}"


def test_the_version_on_the_command_line_overrides_the_configuration() -> None:
    stack = str(STACKS["example"])
    old = render("--config", stack, "--kubernetes-version", "1.18")
    budgets = [
        each["apiVersion"] for each in yaml.safe_load_all(old.output) if each["kind"] == "PodDisruptionBudget"
    ]
    assert budgets == ["policy/v1beta1"]
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
