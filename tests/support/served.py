"""`hansa serve` as documents show it, at a port that is free."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ADDRESS = "http://127.0.0.1:8000"
"""Where documents say that it answers."""


@contextmanager
def served(command: str, cwd: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """The address that the command prints when it answers; SIGTERM ends it, in peace."""
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command} --port 0"],
        cwd=cwd,
        env=dict(environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:"), process.communicate()[1]
        yield url
        process.terminate()
        said = process.communicate(timeout=120)[1]
        assert process.returncode == 0, said
    finally:
        process.kill()
        process.communicate()
