"""Asks a database of known vulnerabilities about the packages of the images, by pip-audit.

    tools/python tools/audit_packages.py                  PyPI's own database
    tools/python tools/audit_packages.py --service osv    another one that pip-audit knows

It ends with 0 where none is known, with 1 where some are, and with 3 where nobody could be asked: a
package that the database does not know was not audited, whatever pip-audit makes of it.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PINNED = ROOT / "requirements/audit.txt"
AUDITED = ("operator", "client", "server", "build")
NONE_KNOWN, SOME_KNOWN, NOBODY_ASKED = 0, 1, 3


def verdict(report: dict[str, Any] | None, service: str) -> tuple[int, list[str]]:
    """The exit and the lines for what pip-audit has found out, if it has."""
    packages = report["dependencies"] if report else []
    skipped = [each["name"] for each in packages if "skip_reason" in each]
    asked = len(packages) - len(skipped)
    if not asked:
        sentence = f"the database ({service}) cannot be reached from here: nothing was audited"
        return NOBODY_ASKED, [sentence]
    lines = [
        f"{each['name']} {each['version']}: {known['id']}"
        f" (fixed in {', '.join(known['fix_versions']) or 'no version'})"
        for each in packages
        for known in each.get("vulns", [])
    ]
    if skipped:
        lines.append(f"not audited, for {service} does not know them: {', '.join(skipped)}")
    known = sum(len(each.get("vulns", [])) for each in packages)
    lines.append(f"{asked} packages audited, {known} known vulnerabilities")
    if known:
        return SOME_KNOWN, lines
    return (NOBODY_ASKED if skipped else NONE_KNOWN), lines


def program() -> Path:
    """pip-audit in an environment of its own, installed by hash the first time."""
    digest = hashlib.sha256(PINNED.read_bytes()).hexdigest()[:16]
    folder = ROOT / ".cache" / f"audit-{digest}"
    made = folder / "bin" / "pip-audit"
    if not made.exists():
        venv.create(folder, clear=True, with_pip=True)
        install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        by_hash = ("--require-hashes", "--only-binary", ":all:", "-r", str(PINNED))
        done = subprocess.run([folder / "bin" / "python", *install, *by_hash], check=False)
        if done.returncode:
            print("error: pip-audit: cannot be installed from here, see above", file=sys.stderr)
            raise SystemExit(NOBODY_ASKED)
    return made


def audit(service: str) -> dict[str, Any] | None:
    """What pip-audit reports, or nothing where it could not."""
    files = [word for name in AUDITED for word in ("-r", str(ROOT / f"requirements/{name}.txt"))]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ["--disable-pip", "--require-hashes", "--progress-spinner", "off"]
        options += ["-s", service, "-f", "json", "-o", str(report)]
        subprocess.run([program(), *options, *files], capture_output=True, check=False)
        return dict(json.loads(report.read_text())) if report.exists() else None


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--service", choices=["pypi", "osv"], default="pypi")
    service = parser.parse_args().service
    code, lines = verdict(audit(service), service)
    print(*lines, sep="\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
