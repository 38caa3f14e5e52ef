"""Names of images, what a requirements file may say, and where a build gets its packages from."""

import struct
import sys
from pathlib import Path

import pytest

from local import chroot, elf, image, logged, rootfs, wheels
from modules.errors import EnvironmentFault, SpecError


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("mylab/train:1", "docker.io/mylab/train:1"),
        ("train:1.0-rc1", "docker.io/library/train:1.0-rc1"),
        ("registry.example.org/a/b:2", "registry.example.org/a/b:2"),
        ("localhost:5000/a:2", "localhost:5000/a:2"),
        ("docker.io/mylab/train:1", "docker.io/mylab/train:1"),
    ],
)
def test_a_name_is_read_as_containerd_reads_it(name: str, full: str) -> None:
    assert image.full_reference(name) == full


@pytest.mark.parametrize(
    "name", ["mylab/train", "mylab/train:latest", "MyLab/train:1", "a b:1", ":1", "a//b:1", "-a:1"]
)
def test_a_name_that_could_not_run_is_refused(name: str) -> None:
    with pytest.raises(SpecError) as refused:
        image.full_reference(name)
    assert name in str(refused.value)


def test_an_image_of_the_user_needs_a_name_and_a_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="tfcluster local image"):
        image.ensure("mylab/train:1")
    with pytest.raises(SpecError) as refused:
        image.main(tmp_path / "requirements.txt", None)
    assert "--name mylab/train:1" in str(refused.value)


def test_the_name_of_the_tensorflow_image_is_the_version_that_is_pinned() -> None:
    pinned = Path(image.__file__).with_name("requirements-tensorflow.txt").read_text()
    version = image.TENSORFLOW.rpartition(":")[2]
    assert f"tensorflow-cpu=={version};" in pinned
    assert f"tensorflow=={version};" in pinned


def test_every_wheel_of_the_tensorflow_image_is_pinned() -> None:
    lines = Path(image.__file__).with_name("requirements-tensorflow.txt").read_text().splitlines()
    asked = [line for line in lines if line and not line.startswith("#")]
    assert asked and all("==" in line for line in asked)


def test_the_content_of_requirements_follows_what_they_include(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("numpy==2.0  # why\n\n# nothing\n-r more.txt\n-c limits.txt\n")
    (tmp_path / "more.txt").write_text("-r requirements.txt\nscipy\n")
    (tmp_path / "limits.txt").write_text("six<2\n")
    before = wheels.content(file)
    assert "scipy" in before and "six<2" in before and "why" not in before
    (tmp_path / "limits.txt").write_text("six<3\n")
    assert wheels.content(file) != before


def test_the_content_of_requirements_follows_the_wheels_that_they_name(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("./mine-1-py3-none-any.whl\n")
    wheel = tmp_path / "mine-1-py3-none-any.whl"
    wheel.write_bytes(b"one")
    before = wheels.content(file)
    wheel.write_bytes(b"two")
    assert wheels.content(file) != before


@pytest.mark.parametrize("line", ["./package", "-e .", "--editable ./package"])
def test_a_folder_among_requirements_is_refused_with_a_way_out(tmp_path: Path, line: str) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "requirements.txt").write_text(line)
    with pytest.raises(SpecError) as refused:
        wheels.content(tmp_path / "requirements.txt")
    assert "pip wheel" in str(refused.value)


def test_a_missing_requirements_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("-r nowhere.txt")
    with pytest.raises(SpecError) as refused:
        wheels.content(tmp_path / "requirements.txt")
    assert "nowhere.txt" in str(refused.value)


def test_pip_inside_reaches_what_pip_outside_reaches() -> None:
    passed = chroot.host_environment(
        {
            "PIP_INDEX_URL": "https://pypi.example.org/simple",
            "https_proxy": "http://proxy:3128",
            "PIP_TARGET": "/home/me/lib",
            "PIP_CERT": "/my/bundle.crt",
            "HOME": "/home/me",
            "LD_PRELOAD": "x.so",
        }
    )
    assert passed["PIP_INDEX_URL"] == "https://pypi.example.org/simple"
    assert passed["https_proxy"] == "http://proxy:3128"
    assert passed["PIP_CERT"] == "/my/bundle.crt"
    assert passed["HOME"] == "/home/me"
    assert "PIP_TARGET" not in passed and "LD_PRELOAD" not in passed


def test_the_mirror_is_that_of_the_suite(tmp_path: Path) -> None:
    listed = "tool-suite main http://other/\nbookworm contrib http://contrib/\nbookworm main http://mirror/debian/\n"
    assert rootfs.mirror_of("bookworm", listed) == "http://mirror/debian/"
    assert rootfs.mirror_of("trixie", listed) == ""
    mirrors = tmp_path / "debian.list"
    mirrors.write_text("https://first/debian\nhttps://second/debian\n")
    assert rootfs.mirror_of("trixie", f"trixie main mirror+file:{mirrors}/") == "https://first/debian"


def test_a_failed_command_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    script = "import sys; print('first'); print('ERROR: no such package'); sys.exit(3)"
    with pytest.raises(EnvironmentFault) as failed:
        logged.run([sys.executable, "-c", script], doing="installing", log=tmp_path / "log")
    assert failed.value.what == "installing failed"
    assert "ERROR: no such package" in failed.value.why
    assert str(tmp_path / "log") in failed.value.fix
    assert "first" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("tar: write error: No space left on device", "disk is full"),
        ("W: Failed resolving 'deb.debian.org': Temporary failure in name resolution", "no network"),
        ("ConnectionError: Failed to establish a new connection: [Errno 101]", "no network"),
    ],
)
def test_a_failure_of_the_machine_is_said_in_words(tmp_path: Path, line: str, word: str) -> None:
    assert word in logged.fault("installing failed", ["begin", line, "end"], tmp_path / "log").why


def _library(loaded: int, behind: int) -> bytes:
    """The least of an ELF file: a header, one program header, what it loads, and sections behind."""
    header = bytearray(b"\x7fELF\x02\x01".ljust(64, b"\0"))
    end = 64 + 56 + loaded
    struct.pack_into("<QQ", header, 32, 64, end + behind)
    struct.pack_into("<HHHHH", header, 54, 56, 1, 64, 3, 2)
    program = struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, end, end, 4096)
    return bytes(header) + program + b"L" * loaded + b"S" * behind


def test_cutting_a_library_keeps_what_is_loaded(tmp_path: Path) -> None:
    library = tmp_path / "lib.so"
    library.write_bytes(_library(1000, 500))
    elf.cut(library)
    content = library.read_bytes()
    assert content[120:] == b"L" * 1000
    assert struct.unpack_from("<Q", content, 40) == (0,) and struct.unpack_from("<HH", content, 60) == (0, 0)


def test_cutting_leaves_other_files_alone(tmp_path: Path) -> None:
    text = tmp_path / "lib.so"
    text.write_text("INPUT(libother.so.2)")
    elf.cut(text)
    assert text.read_text() == "INPUT(libother.so.2)"
