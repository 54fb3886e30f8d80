"""Writes installed packages as a layer of an image, so that one install of torch serves both.

    tools/python tools/environment_layer.py server >layer.tar               the extra's packages
    tools/python tools/environment_layer.py client --only torch             only torch's part
    tools/python tools/environment_layer.py client --without torch          all but torch's part
    tools/python tools/environment_layer.py client --list                   what decides its bytes

The layer is a virtual environment at /opt/hansa, as the Dockerfiles make one. It is meant for
clusters of this machine, so it leaves out what only a GPU or a compiler would use.
"""

import argparse
import io
import os
import re
import sys
import tarfile
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

from requirements import requirements

HOME = "opt/hansa"
MINOR = f"python{sys.version_info.major}.{sys.version_info.minor}"
SITE = f"{HOME}/lib/{MINOR}/site-packages"
FORM = 3
"""To be raised when the same packages shall become another layer."""

LEFT_OUT_PACKAGES = {"triton", "cuda-bindings", "cuda-pathfinder", "setuptools"}
"""What torch asks for and no client uses without a GPU: compilers and their like."""

LEFT_OUT_FILES = (
    "*.a",
    "*.h",
    "*.hpp",
    "*.cuh",
    "*.pyi",
    "torch/include/*",
    "torch/share/*",
    "nvidia/*/include/*",
    "nvidia/cu13/lib/libcusolverMg.*",
    "nvidia/cu13/lib/libnvperf*",
    "nvidia/cu13/lib/libnvrtc.alt.*",
    "nvidia/cudnn/lib/libcudnn_*",
    "nvidia/nvshmem/lib/*.bc",
    "nvidia/nvshmem/lib/nvshmem_*",
)
"""Files that the loader of `import torch` does not ask for, and a processor cannot use."""


def plain(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(wanted: list[str]) -> dict[str, Distribution]:
    """All distributions that some requirements bring, by name."""
    found: dict[str, Distribution] = {}
    todo = [Requirement(line) for line in wanted]
    seen: set[tuple[str, str]] = set()
    while todo:
        requirement = todo.pop()
        name = plain(requirement.name)
        for extra in ("", *requirement.extras):
            if name in LEFT_OUT_PACKAGES or (name, extra) in seen:
                continue
            seen.add((name, extra))
            found[name] = installed(name)
            todo += [
                need
                for line in found[name].requires or []
                if (need := Requirement(line)).marker is None
                or need.marker.evaluate({"extra": extra})
            ]
    return found


def installed(name: str) -> Distribution:
    """The distribution in this environment."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise SystemExit(
            f"error: package {name}: got none in {sys.prefix}\n\nhint: make setup"
        ) from None


def files(package: Distribution) -> Iterator[tuple[Path, str]]:
    """Each file of a distribution: where it is, and its place below site-packages."""
    if package.files is None:
        raise SystemExit(f"error: package {package.name}: has no list of its files (RECORD)")
    base = Path(str(package.locate_file("")))
    for each in package.files:
        place = os.path.normpath(str(each))
        source = base / place
        if place.startswith(("..", "/")) or is_left_out(place):
            continue  # programs and manual pages lie above site-packages
        if source.is_file():
            yield source, place
            yield from _bytecode(source, place)


def _bytecode(source: Path, place: str) -> Iterator[tuple[Path, str]]:
    """The compiled form of a module; some installers do not list it."""
    if source.suffix == ".py":
        name = f"{source.stem}.{sys.implementation.cache_tag}.pyc"
        compiled = source.parent / "__pycache__" / name
        if compiled.is_file():
            yield compiled, str(Path(place).parent / "__pycache__" / name)


def is_left_out(place: str) -> bool:
    """Whether a file is of no use in a cluster of this machine."""
    return place.endswith(".pyc") or any(fnmatch(place, each) for each in LEFT_OUT_FILES)


def write(packages: dict[str, Distribution], skeleton: bool) -> None:
    """The layer, on stdout."""
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", bufsize=1 << 20) as archive:
        if skeleton:
            _write_skeleton(archive)
        for name in sorted(packages):
            for source, place in sorted(set(files(packages[name]))):
                header = archive.gettarinfo(source, f"{SITE}/{place}")
                header.uid = header.gid = 0
                header.uname = header.gname = ""
                header.mode = 0o755 if header.mode & 0o111 else 0o644
                with source.open("rb") as content:
                    archive.addfile(header, content if header.isreg() else None)


def _write_skeleton(archive: tarfile.TarFile) -> None:
    """What makes the folder a virtual environment, and lets it find the code's layer."""
    link = tarfile.TarInfo(f"{HOME}/bin/python")
    link.type, link.linkname = tarfile.SYMTYPE, "/usr/bin/python3"
    archive.addfile(link)
    for path, text in {
        f"{HOME}/pyvenv.cfg": "home = /usr/bin\ninclude-system-site-packages = false\n",
        f"{SITE}/hansa.pth": "/opt/hansa/code\n",
    }.items():
        header = tarfile.TarInfo(path)
        header.size = len(text)
        archive.addfile(header, io.BytesIO(text.encode()))


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description="Installed packages as a layer of an image.")
    parser.add_argument("extra")
    parser.add_argument("--only", default="", help="a package, with what it brings")
    parser.add_argument("--without", default="", help="a package, with what it brings")
    parser.add_argument("--list", action="store_true", help="print all that decides what is in it")
    given = parser.parse_args()
    packages = closure([given.only] if given.only else requirements(given.extra))
    if given.without:
        below = closure([given.without])
        packages = {name: each for name, each in packages.items() if name not in below}
    if given.list:
        print(f"form=={FORM}", *LEFT_OUT_FILES, sep="\n")
        print(*(f"{name}=={each.version}" for name, each in sorted(packages.items())), sep="\n")
    else:
        write(packages, skeleton=not given.without)


if __name__ == "__main__":
    main()
