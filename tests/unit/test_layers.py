"""Pure modules stay pure: data flows downwards, and only the shell knows Pulumi or a cluster."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import modules

FOLDER = Path(modules.__file__).parent
MAP = modules.__doc__ or ""
KINDS = dict(re.findall(r"^    (\w+)/? +(PURE|SHELL) ", MAP, re.MULTILINE))
PURE = sorted(name for name, kind in KINDS.items() if kind == "PURE")
FORBIDDEN = ("pulumi", "pulumi_kubernetes", "kubernetes")


def _imported(path: Path) -> set[str]:
    """The top-level packages that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_the_map_of_the_package_names_every_module() -> None:
    there = {path.stem for path in FOLDER.glob("*.py")} | {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    # errors.py is for all of them; what is in runtime/ runs in pods and is never imported.
    assert {*KINDS, *re.findall(r"(\w+)\.py\b", MAP)} >= there - {"__init__", "errors", "runtime"}
    assert set(KINDS) <= there


@pytest.mark.parametrize("module", [*PURE, "errors"])
def test_a_pure_module_loads_neither_pulumi_nor_a_kubernetes_client(module: str) -> None:
    program = f"import sys, modules.{module}; print(*sorted(set({FORBIDDEN!r}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=FOLDER.parent
    )
    assert done.stdout.split() == []


def test_pure_modules_import_no_shell_not_even_late() -> None:
    shells = {name for name, kind in KINDS.items() if kind == "SHELL"}
    for name in PURE:
        files = [FOLDER / f"{name}.py"] if (FOLDER / f"{name}.py").is_file() else sorted((FOLDER / name).glob("*.py"))
        for path in files:
            words = set(
                re.findall(r"^\s*(?:from modules import|import modules\.|from modules\.)(.+)", path.read_text(), re.M)
            )
            named = {word for line in words for word in re.findall(r"\w+", line)}
            assert not named & shells, path


def test_only_deploy_imports_pulumi_kubernetes() -> None:
    users = [path.name for path in FOLDER.parent.glob("*.py") if "pulumi_kubernetes" in _imported(path)]
    users += [path.name for path in FOLDER.rglob("*.py") if "pulumi_kubernetes" in _imported(path)]
    assert users == ["deploy.py"]


def test_scripts_for_pods_need_only_the_standard_library_and_tensorflow() -> None:
    for path in (FOLDER / "runtime").glob("*.py"):
        assert _imported(path) <= {*sys.stdlib_module_names, "tensorflow"}, path


def test_nothing_in_modules_imports_the_embedded_cluster_but_where_it_is() -> None:
    users = {path.name for path in FOLDER.rglob("*.py") if "local" in _imported(path)}
    assert users <= {"access.py", "cli.py"}
