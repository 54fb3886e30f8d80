"""A real registry: the handlers of distribution, built from its Go module."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.sources import ROOT

SOURCE = ROOT / "tests/distribution"
PROGRAM = ROOT / ".cache/distribution/registry"


def has_go() -> bool:
    """Whether it can be built here."""
    return shutil.which("go") is not None


def build() -> Path:
    """The program; a minute or two the first time, then as long as Go looks at its cache."""
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["go", "build", "-buildvcs=false", "-o", str(PROGRAM), "."],
        cwd=SOURCE,
        check=True,
    )
    return PROGRAM


@contextmanager
def distribution(*logins: Path) -> Iterator[str]:
    """Its address until the block ends; with a file of htpasswd it asks for a login."""
    process = subprocess.Popen(
        [build(), *logins], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
