"""A small image as files, and the program that says what is in it and where it comes from."""

import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

from tools.oci import Layout

ROOT = Path(__file__).parents[1]
NAME = "registry.example/you/hansa-server:7"
SITE = "opt/hansa/lib/python3.12/site-packages"
WHEEL, OTHER = "a" * 64, "b" * 64
BASE = {
    "usr/lib/os-release": 'ID=debian\nVERSION_ID="12"\n',
    "var/lib/dpkg/status": (
        "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\n"
        "Version: 1:2.36-9+deb12u4\nDescription: a library\n with more lines\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nArchitecture: all\nVersion: 1\n"
    ),
    "usr/lib/python3/dist-packages/old-1.egg-info": "Name: old\nVersion: 1\nLicense: MIT\n",
    "usr/lib/python3/dist-packages/away-1.dist-info/METADATA": "Name: away\nVersion: 1\n",
}
PACKAGES = {
    "opt/hansa/requirements.txt": f"numpy==2 \\\n    --hash=sha256:{WHEEL} \\\n"
    f"    --hash=sha256:{OTHER}\nelsewhere==1 ; sys_platform == 'win32' --hash=sha256:{OTHER}\n",
    f"{SITE}/numpy-2.dist-info/METADATA": (
        "Metadata-Version: 2.4\nName: NumPy\nVersion: 2\nLicense-Expression: BSD-3-Clause\n\n"
        "Name: not a header\n"
    ),
    f"{SITE}/numpy-2.dist-info/RECORD": "numpy/__init__.py,sha256=x,1\n",
    f"{SITE}/rich-1.dist-info/METADATA": (
        "Name: rich\nVersion: 1\nClassifier: License :: OSI Approved :: MIT License\n"
    ),
    "usr/lib/python3/dist-packages/.wh.away-1.dist-info": "",
}
CODE = {"opt/hansa/code/hansa-7.dist-info/METADATA": "Name: hansa\nVersion: 7\n"}


def tar(files: dict[str, str]) -> io.BytesIO:
    """A layer."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for path, text in files.items():
            header = tarfile.TarInfo(f"./{path}")
            header.size = len(text)
            archive.addfile(header, io.BytesIO(text.encode()))
    made.seek(0)
    return made


def make_layout(folder: Path) -> Layout:
    """The image, on its packages, on its base."""
    made = Layout(folder)
    made.add("base:1", tar(BASE), None)
    made.add("packages:1", tar(PACKAGES), "base:1")
    made.add(NAME, tar(CODE), "packages:1")
    return made


def attest(
    repository: Path, verb: str, *args: object, epoch: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a clone's tools/attest.py."""
    environment = {k: v for k, v in os.environ.items() if k != "SOURCE_DATE_EPOCH"}
    return subprocess.run(
        [sys.executable, str(repository / "tools/attest.py"), verb, *map(str, args)],
        env=environment | ({"SOURCE_DATE_EPOCH": epoch} if epoch else {}),
        capture_output=True,
        text=True,
        check=False,
    )


def page_commands(title: str = "") -> list[str]:
    """What docs/supply-chain.md tells to type, in one of its sections or in all."""
    text = (ROOT / "docs/supply-chain.md").read_text()
    sections = [each for each in text.split("\n## ") if each.startswith(title)]
    blocks = re.findall(r"```console\n(.*?)```", "".join(sections), flags=re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line[2:] for line in lines if line.startswith("$ ")]
