"""The files of a release; ``tests/process/test_release.py`` builds them."""

import hashlib
import io
import json
import re
import tarfile
from pathlib import Path

import click
import pytest
import yaml

from components.manifests import everything
from components.stack import load
from gpushare import __version__
from gpushare.errors import ConfigError, GpuShareError
from release import bundle, krew, oci, publish, reproducible, version
from release.archives import ArchiveFile, read_tar_gz, tar, tar_gz
from release.recipe import ROOT
from tests.support.builders.chart_values import IMAGES


def test_an_archive_depends_on_its_files_only() -> None:
    files = {
        "b": ArchiveFile(b"2"),
        "a/program": ArchiveFile(b"1", is_program=True),
        "a": ArchiveFile(is_folder=True),
        "link": ArchiveFile(link="b"),
    }
    assert tar_gz(files) == tar_gz(dict(reversed(files.items())))
    assert read_tar_gz(tar_gz(files)) == files
    with tarfile.open(fileobj=io.BytesIO(tar(files))) as archive:
        assert [(each.name, each.mode, each.mtime, each.uid) for each in archive] == [
            ("a", 0o755, 0, 0),
            ("a/program", 0o755, 0, 0),
            ("b", 0o644, 0, 0),
            ("link", 0o644, 0, 0),
        ]


def test_install_yaml_has_the_objects_of_a_stack_with_default_settings() -> None:
    objects = list(yaml.safe_load_all(bundle.install_yaml(IMAGES)))
    assert objects == json.loads(json.dumps(everything(load({**bundle.DEFAULTS, "images": IMAGES}))))


def test_alerts_of_a_release_link_to_the_runbooks_of_its_version() -> None:
    page = f"https://git.internal/gpus/blob/v{__version__}/docs/how-to/runbooks.md"
    assert f"runbook_url: {page}#gpushareextenderdown" in bundle.install_yaml(
        IMAGES, "https://git.internal/gpus/"
    )
    assert "https://example.com" not in bundle.install_yaml(IMAGES)


@pytest.mark.parametrize("missing", ["--url", "--source"])
def test_a_release_needs_the_urls_that_it_links_to(missing: str) -> None:
    urls = {"--url": "https://files.internal", "--source": "https://git.internal/gpus"}
    words = [f"{name}={'' if name == missing else url}" for name, url in urls.items()]
    with pytest.raises(click.BadParameter, match="is not a URL such as"):
        bundle.cli.main(words, standalone_mode=False)


def test_the_plugins_have_the_page_of_the_board_and_the_runbooks() -> None:
    used = {f"gpushare/board/page/board.{kind}" for kind in ("css", "html", "js")}
    assert bundle._package().keys() >= used | {"gpushare/monitoring/runbooks.md"}


def test_install_yaml_is_the_same_for_all_versions_that_it_names() -> None:
    """A scheduler may be one version older than the API server, not newer."""
    texts = {
        json.dumps(everything(load({**bundle.DEFAULTS, "kubernetesVersion": each, "images": IMAGES})))
        for each in ("1.36", "1.37")
    }
    assert len({text.replace("kube-scheduler:v1.37.0", "kube-scheduler:v1.36.0") for text in texts}) == 1
    assert "for Kubernetes 1.36 and 1.37:" in bundle.install_yaml(IMAGES)


def test_the_examples_of_a_release_name_its_images() -> None:
    texts = {name: file.content.decode() for name, file in bundle.examples(IMAGES).items()}
    built = {name for name, text in texts.items() if f"image: {IMAGES['samples']}\n" in text}
    names = ("app-3g", "app-3g-whole-card", "app-6g", "bert", "binpack")
    assert built == {f"examples/{name}.yaml" for name in names}
    assert not any("samples:" in text for text in texts.values())
    others = {name: image for name, image in IMAGES.items() if name != "samples"}
    with pytest.raises(ConfigError, match="no image samples"):
        bundle.examples(others)


def test_a_release_has_the_recipes_under_the_paths_of_their_page() -> None:
    page = (ROOT / "docs" / "how-to" / "recipes.md").read_text()
    applied = set(re.findall(r"examples/recipes/\S+\.yaml(?=\n| )", page))
    assert applied
    assert applied <= bundle.examples(IMAGES).keys()


def test_the_chart_is_in_an_oci_layout_by_digest() -> None:
    archive = bundle.charts(IMAGES)[f"gpushare-{__version__}.chart.oci.tar"]
    with tarfile.open(fileobj=io.BytesIO(archive)) as layout:
        files = {each.name: layout.extractfile(each) for each in layout}
        contents = {name: file.read() for name, file in files.items() if file}
    for name, content in contents.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
    (entry,) = json.loads(contents["index.json"])["manifests"]
    manifest = json.loads(contents[f"blobs/sha256/{entry['digest'].partition(':')[2]}"])
    (layer,) = manifest["layers"]
    assert layer["mediaType"] == "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
    assert (
        contents[f"blobs/sha256/{layer['digest'].partition(':')[2]}"]
        == bundle.charts(IMAGES)[f"gpushare-{__version__}.tgz"]
    )
    assert oci.layout({"name": "x", "version": "1"}, b"") == oci.layout({"version": "1", "name": "x"}, b"")


def collection_tarball(names: list[str]) -> bytes:
    """As ansible-galaxy writes it, with files in the order of the disk."""
    listed = json.dumps({"files": [{"name": name} for name in names]}).encode()
    checksum = hashlib.sha256(listed).hexdigest()
    described = {"collection_info": {"repository": None}, "file_manifest_file": {"chksum_sha256": checksum}}
    manifest = json.dumps(described).encode()
    return tar_gz(
        {
            "FILES.json": ArchiveFile(listed),
            "MANIFEST.json": ArchiveFile(manifest),
            "README.md": ArchiveFile(b"x"),
        }
    )


def test_a_collection_does_not_depend_on_the_order_of_files_on_the_disk() -> None:
    first, second = (
        reproducible.collection(collection_tarball(names), "https://example.com/x")
        for names in (["a", "b"], ["b", "a"])
    )
    assert first == second
    files = read_tar_gz(first)
    manifest = json.loads(files["MANIFEST.json"].content)
    checksum = hashlib.sha256(files["FILES.json"].content).hexdigest()
    assert manifest["file_manifest_file"]["chksum_sha256"] == checksum
    assert manifest["collection_info"]["repository"] == "https://example.com/x"


def test_an_sbom_has_no_time_and_no_random_number() -> None:
    text = '{"serialNumber": "urn:uuid:1", "metadata": {"timestamp": "now", "tools": []}, "components": []}'
    assert json.loads(reproducible.bill_of_materials(text)) == {"metadata": {"tools": []}, "components": []}


def test_checksums_are_those_that_sha256sum_checks() -> None:
    assert reproducible.checksums({"b": b"", "a": b"1"}).splitlines() == [
        f"{hashlib.sha256(b'1').hexdigest()}  a",
        f"{hashlib.sha256(b'').hexdigest()}  b",
    ]


def installation(folder: Path, tag: str, text: str = "same") -> Path:
    for name, content in {
        "msgspec/__init__.py": text,
        f"msgspec/_core.{tag}.so": tag,
        "msgspec-1.dist-info/RECORD": tag,
        "msgspec-1.dist-info/METADATA": "Name: msgspec",
        "bin/tool": tag,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def test_the_libraries_of_all_versions_of_python_lie_side_by_side(tmp_path: Path) -> None:
    joined = krew.joined([installation(tmp_path / each, each) for each in ("cpython-311", "cpython-312")])
    assert sorted(joined) == [
        "msgspec-1.dist-info/METADATA",
        "msgspec/__init__.py",
        "msgspec/_core.cpython-311.so",
        "msgspec/_core.cpython-312.so",
    ]


def test_libraries_that_contradict_each_other_are_an_error(tmp_path: Path) -> None:
    folders = [installation(tmp_path / each, each, text=each) for each in ("cpython-311", "cpython-312")]
    with pytest.raises(GpuShareError, match=r"msgspec/__init__\.py differs"):
        krew.joined(folders)


@pytest.mark.parametrize("plugin", krew.PLUGINS, ids=lambda each: each.name)
def test_a_krew_manifest_names_every_archive_with_its_checksum(plugin: krew.KrewPlugin) -> None:
    digests = {each.archive: each.arch for each in krew.PLATFORMS}
    spec = krew.manifest(plugin, "https://example.com/v1", digests)["spec"]
    assert spec["version"] == f"v{__version__}"
    assert [(each["uri"], each["sha256"]) for each in spec["platforms"]] == [
        (f"https://example.com/v1/{name}", digest) for name, digest in digests.items()
    ]
    assert len(spec["shortDescription"]) < 80
    compile(krew.launcher(plugin), plugin.program, "exec")


@pytest.mark.parametrize("plugin", krew.PLUGINS, ids=lambda each: each.name)
def test_a_krew_manifest_complies_with_the_rules_of_krew(plugin: krew.KrewPlugin) -> None:
    """Those of its ``internal/index/validation``, which is not run here."""
    digests = {each.archive: hashlib.sha256(each.archive.encode()).hexdigest() for each in krew.PLATFORMS}
    manifest = krew.manifest(plugin, "https://example.com/v1", digests)
    assert manifest["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    assert manifest["kind"] == "Plugin"
    assert re.fullmatch(r"[\w-]+", manifest["metadata"]["name"])
    spec = manifest["spec"]
    assert re.fullmatch(r"v\d+\.\d+\.\d+(-[\w.-]+)?", spec["version"])
    assert spec["shortDescription"].strip() == spec["shortDescription"] != ""
    selectors = [json.dumps(each["selector"], sort_keys=True) for each in spec["platforms"]]
    assert len(set(selectors)) == len(selectors) > 0
    for platform in spec["platforms"]:
        assert set(platform) == {"selector", "uri", "sha256", "bin"}
        assert set(platform["selector"]["matchLabels"]) == {"os", "arch"}
        assert re.fullmatch(r"[0-9a-f]{64}", platform["sha256"])
        assert platform["uri"].endswith((".tar.gz", ".zip"))
        assert platform["bin"] in krew.archive({}, {}, b"")


def test_the_version_is_the_same_everywhere() -> None:
    assert version.found(ROOT) == {name: {__version__} for name in version.PLACES}


def test_a_new_version_is_written_everywhere(tmp_path: Path) -> None:
    for name in version.PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    version.write("1.2.3-rc.1", tmp_path)
    assert version.found(tmp_path) == {name: {"1.2.3-rc.1"} for name in version.PLACES}


def test_what_is_no_version_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'v1' is not a version; use 1\.2\.3"):
        version.write("v1", tmp_path)


def test_a_tag_of_another_version_or_without_a_changelog_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"use v{__version__}"):
        version.check_tag("v9.9.9", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text("## Unreleased\n")
    with pytest.raises(ConfigError, match=f"no section '## {__version__} - <date>'"):
        version.check_tag(f"v{__version__}", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text(f"## Unreleased\n\n## {__version__} - 2026-12-01\n")
    version.check_tag(f"v{__version__}", tmp_path)


def test_a_release_leaves_no_fragment_of_the_changelog(tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(f"## {__version__} - 2026-12-01\n")
    (tmp_path / "changelog.d").mkdir()
    for name in ("README.md", "12.added.md"):
        (tmp_path / "changelog.d" / name).touch()
    with pytest.raises(ConfigError, match=r"changelog\.d has changes .* CHANGELOG\.md: 12\.added\.md"):
        version.check_tag(f"v{__version__}", tmp_path)


def built(folder: Path) -> Path:
    contents = {"install.yaml": b"1", "chart.tgz": b"2"}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / bundle.SUMS).write_text(reproducible.checksums(contents))
    return folder


def test_what_the_checksums_list_is_published_with_their_signature(tmp_path: Path) -> None:
    dist = built(tmp_path)
    (dist / "of-an-earlier-build.tgz").write_bytes(b"")
    (dist / f"{bundle.SUMS}.sigstore.json").write_text("{}")
    names = [each.name for each in publish.listed(dist)]
    assert names == [bundle.SUMS, f"{bundle.SUMS}.sigstore.json", "chart.tgz", "install.yaml"]


@pytest.mark.parametrize("content", [None, b"changed"])
def test_a_missing_or_changed_file_is_not_published(tmp_path: Path, content: bytes | None) -> None:
    dist = built(tmp_path)
    (dist / "install.yaml").unlink()
    if content:
        (dist / "install.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"install\.yaml is not the file of SHA256SUMS"):
        publish.listed(dist)


def test_the_notes_of_a_release_are_its_section_of_the_changelog() -> None:
    released = "## 0.2.0 - 2026-12-01\n\n- two\n\n## 0.1.0 - 2026-11-01\n\n- one\n"
    text = f"# Changelog\n\n## Unreleased\n\n- new\n\n{released}"
    assert publish.changes(text, "0.2.0") == "- two\n"
    assert publish.changes(text, "0.1.0") == "- one\n"


def test_a_release_is_made_of_an_existing_tag_only(tmp_path: Path) -> None:
    command = publish.release_command("v1.0.0", [tmp_path / "a"], tmp_path / "notes.md")
    assert command[:5] == ["gh", "release", "create", "v1.0.0", "--verify-tag"]
    assert publish.push_command(tmp_path, "example.com/gpushare")[-1] == (
        f"docker://example.com/gpushare/charts/gpushare:{__version__}"
    )
