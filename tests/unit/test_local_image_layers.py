"""Layers and images: what is written, and that it is the same each time."""

import json
import os
import tarfile
from pathlib import Path

import pytest

from local import layers, oci, records
from local.layers import Recipe
from local.progress import Progress, Step
from modules.errors import EnvironmentFault


def _tree(folder: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/tool").write_text("#!/bin/sh\n")
    (folder / "bin/tool").chmod(0o755)
    (folder / "bin/same").hardlink_to(folder / "bin/tool")
    (folder / "bin/link").symlink_to("tool")
    (folder / ("long-" * 30)).write_text("a name that the oldest form of tar cannot hold")
    return folder


def _members(layer: oci.Layer) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(layer.path) as tar:
        return {member.name: member for member in tar}


def test_the_same_folder_gives_the_same_digest_at_another_time_and_place(tmp_path: Path) -> None:
    first = oci.write_layer(_tree(tmp_path / "one"), tmp_path / "1.tar")
    other = _tree(tmp_path / "elsewhere")
    for path in other.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
    assert oci.write_layer(other, tmp_path / "2.tar").digest == first.digest


def test_another_mode_gives_another_digest(tmp_path: Path) -> None:
    first = oci.write_layer(_tree(tmp_path / "one"), tmp_path / "1.tar")
    (tmp_path / "one/bin/tool").chmod(0o700)
    assert oci.write_layer(tmp_path / "one", tmp_path / "2.tar").digest != first.digest


def test_a_layer_keeps_links_and_modes_and_names_of_any_length(tmp_path: Path) -> None:
    layer = oci.write_layer(_tree(tmp_path / "one"), tmp_path / "1.tar")
    members = _members(layer)
    assert members["bin/same"].isreg() and members["bin/same"].mode == 0o755
    assert members["bin/tool"].islnk() and members["bin/tool"].linkname == "bin/same"
    assert members["bin/link"].issym() and members["bin/link"].linkname == "tool"
    assert "long-" * 30 in members
    assert layer.size == layer.path.stat().st_size
    assert {member.mtime for member in members.values()} == {oci.MTIME}


def test_pipes_and_sockets_stay_out_of_a_layer(tmp_path: Path) -> None:
    _tree(tmp_path / "one")
    os.mkfifo(tmp_path / "one/pipe")
    assert "pipe" not in _members(oci.write_layer(tmp_path / "one", tmp_path / "1.tar"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes an overlay's mark of a removed file")
def test_what_an_overlay_removed_is_written_as_a_whiteout(tmp_path: Path) -> None:
    (tmp_path / "one/opt").mkdir(parents=True)
    os.mknod(tmp_path / "one/opt/gone", 0o020000, 0)
    assert list(_members(oci.write_layer(tmp_path / "one", tmp_path / "1.tar"))) == ["opt", "opt/.wh.gone"]


def test_an_image_describes_its_layers_in_their_order(tmp_path: Path) -> None:
    image = _image(_layer(tmp_path, "a"), _layer(tmp_path, "b"))
    config, manifest = json.loads(image.config), json.loads(image.manifest)
    digests = [layer.digest for layer in image.layers]
    assert config["rootfs"]["diff_ids"] == digests
    assert [layer["digest"] for layer in manifest["layers"]] == digests
    assert config["config"] == {"Cmd": ["sh"], "Env": ["HOME=/tmp"], "User": "1000:1000", "WorkingDir": "/"}


def test_an_archive_holds_what_its_index_names(tmp_path: Path) -> None:
    image = _image(_layer(tmp_path, "a"))
    (tmp_path / "archive").write_bytes(oci.archive(image))
    with tarfile.open(tmp_path / "archive") as tar:
        index = json.loads(_content(tar, "index.json"))
        (described,) = index["manifests"]
        assert described["digest"] == image.digest
        assert described["annotations"]["io.containerd.image.name"] == "docker.io/local/a:1"
        manifest = _content(tar, "blobs/" + image.digest.replace(":", "/"))
        assert manifest == image.manifest
        assert _content(tar, "blobs/" + json.loads(manifest)["config"]["digest"].replace(":", "/")) == image.config


def test_a_layer_is_made_once_for_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFCLUSTER_CACHE", str(tmp_path))
    made = []

    def make(scratch: Path, _: Step) -> Path:
        made.append(scratch)
        return _tree(scratch / "tree")

    with Progress("test") as progress:
        first = layers.ensure(Recipe("a layer", layers.key("x"), make), progress)
        second = layers.ensure(Recipe("a layer", layers.key("x"), make), progress)
        layers.ensure(Recipe("a layer", layers.key("y"), make), progress)
    assert first == second and first.path.exists()
    assert len(made) == 2 and not made[0].exists()


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError(28, "No space left on device"), ValueError("broken")])
def test_a_layer_that_failed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    monkeypatch.setenv("TFCLUSTER_CACHE", str(tmp_path))

    def make(scratch: Path, _: Step) -> Path:
        (scratch / "half").write_text("x")
        raise failure

    key = layers.key("x")
    expected = EnvironmentFault if isinstance(failure, OSError) else type(failure)
    with pytest.raises(expected), Progress("test") as progress:
        layers.ensure(Recipe("a layer", key, make), progress)
    assert layers.cached(key) is None
    assert [path for path in (tmp_path / "images").rglob("*") if path.is_file() and "lock" not in path.name] == []


def test_what_a_killed_run_left_behind_is_not_taken_for_a_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFCLUSTER_CACHE", str(tmp_path))
    key = layers.key("x")
    (tmp_path / f"images/scratch-{key}").mkdir(parents=True)
    (tmp_path / f"images/scratch-{key}/tree").write_text("left")
    (tmp_path / "images/layers").mkdir()
    (tmp_path / f"images/layers/{key}.tar").write_text("half")
    assert layers.cached(key) is None
    with Progress("test") as progress:
        layer = layers.ensure(Recipe("a layer", key, lambda scratch, _: _tree(scratch / "tree")), progress)
    assert "bin/tool" in _members(layer)


def test_pruning_keeps_what_images_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFCLUSTER_CACHE", str(tmp_path))
    with Progress("test") as progress:
        for name in ("kept", "dropped"):
            layers.ensure(Recipe(name, name, lambda scratch, _: _tree(scratch / "tree")), progress)
    layers.prune({"kept"})
    assert layers.cached("kept") and not layers.cached("dropped")


def test_an_image_on_record_is_known_while_its_layers_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFCLUSTER_CACHE", str(tmp_path))
    with Progress("test") as progress:
        layer = layers.ensure(Recipe("a", "abc", lambda scratch, _: _tree(scratch / "tree")), progress)
    image = _image(layer)
    assert records.keep(image)
    assert not records.keep(image)
    assert list(records.known()) == [image]
    layers.prune(())
    assert list(records.known()) == []


def _layer(folder: Path, name: str) -> oci.Layer:
    (folder / name).mkdir()
    (folder / name / "file").write_text(name)
    return oci.write_layer(folder / name, folder / f"{name}.tar")


def _image(*stack: oci.Layer) -> oci.Image:
    return oci.Image("docker.io/local/a:1", "amd64", oci.Settings(("sh",), {"HOME": "/tmp"}, "1000:1000"), stack)


def _content(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    assert file
    return file.read()
