"""Import layers: the contract stands alone, the programs never know one another."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sources import ROOT, nodes

PACKAGES = {
    "hansa": ROOT / "hansa",
    "hansa_worlds": ROOT / "worlds" / "hansa_worlds",
    "hansa_client": ROOT / "client_image" / "hansa_client",
    "hansa_server": ROOT / "server_image" / "hansa_server",
    "hansa_operator": ROOT / "operator" / "hansa_operator",
}
FORBIDDEN = {
    "hansa": {"hansa_worlds", "hansa_client", "hansa_server", "hansa_operator"},
    "hansa_worlds": {"hansa_client", "hansa_server", "hansa_operator"},
    "hansa_client": {"hansa_server", "hansa_operator"},
    "hansa_server": {"hansa_worlds", "hansa_client", "hansa_operator"},
    "hansa_operator": {"hansa_worlds", "hansa_client", "hansa_server"},
}
HOMES = {
    # who may import it: packages, or single files
    "boto3": ["hansa/store/s3.py"],
    "botocore": ["hansa/store/s3.py"],
    "cryptography": [
        *("hansa/crypto/certificate.py", "hansa/crypto/dsse.py", "hansa/crypto/keys.py"),
        *("hansa/crypto/sealing.py", "hansa/adapter/masking.py"),
    ],
    "torch": ["hansa_client"],
    "transformers": ["hansa_client"],
    "peft": ["hansa_client"],
    "tokenizers": ["hansa_client", "hansa/manifests/world_notes.py"],
    "urllib3": [
        "hansa/core/http.py",
        "hansa/kubernetes/client.py",
        "hansa/kubernetes/kubeconfig.py",
        "hansa/store/s3.py",
    ],
    "huggingface_hub": ["hansa/publish/hub.py", "hansa_client"],
    "wandb": ["hansa/tracking/wandb.py"],
    "kopf": ["hansa_operator"],
    "kubernetes": [
        "hansa_operator",
        "hansa/kubernetes/client.py",
        "hansa/kubernetes/kubeconfig.py",
    ],
}


def sources() -> Iterator[tuple[str, Path]]:
    for package, folder in PACKAGES.items():
        for file in sorted(folder.rglob("*.py")):
            yield package, file


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Top names of all imports, those inside functions too; relative ones stay in the package."""
    for node in nodes(file):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, name.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module.partition(".")[0]


def test_packages_import_only_downwards() -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for package, file in sources()
        for line, name in imports(file)
        if name in FORBIDDEN[package]
    ]
    assert wrong == []


@pytest.mark.parametrize("library", HOMES)
def test_a_heavy_library_has_one_home(library: str) -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{line}"
        for package, file in sources()
        for line, name in imports(file)
        if name == library
        and package not in HOMES[library]
        and str(file.relative_to(ROOT)) not in HOMES[library]
    ]
    assert wrong == []


def test_worlds_and_the_server_run_without_torch() -> None:
    folders = [PACKAGES["hansa_worlds"], PACKAGES["hansa_server"]]
    wrong = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for folder in folders
        for file in folder.rglob("*.py")
        for line, name in imports(file)
        if name in {"torch", "transformers", "peft"}
    ]
    assert wrong == []


def test_the_operator_folder_does_not_shadow_the_standard_library() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists()


HEAVY = {
    *("torch", "boto3", "botocore", "cryptography", "numpy", "pydantic", "yaml", "rich"),
    *("kubernetes", "kopf"),
}


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("import hansa", id="import hansa"),
        pytest.param("from hansa.cli.main import main; main(['--help'])", id="hansa --help"),
        pytest.param("from hansa.cli.main import main; main(['--version'])", id="hansa --version"),
    ],
)
def test_the_first_look_imports_nothing_heavy(code: str) -> None:
    program = (
        f"import sys\ntry:\n    {code}\nexcept SystemExit as stop:\n    assert not stop.code\n"
        f"print(sorted({HEAVY!r} & sys.modules.keys()), file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stderr.strip() == "[]"


def test_a_run_on_this_machine_does_not_import_the_kubernetes_client() -> None:
    """It takes 0.2 s and 20 MiB, so a function imports it once there is a cluster."""
    program = (
        "import importlib, pkgutil, sys, hansa\n"
        "for each in pkgutil.walk_packages(hansa.__path__, 'hansa.'):\n"
        "    if not each.name.endswith('__main__'):\n"
        "        importlib.import_module(each.name)\n"
        "print(len(sys.modules) > 500, 'hansa.kubernetes.client' in sys.modules)\n"
        "print('kubernetes' in sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stdout.split() == ["True", "True", "False"]
