"""The certificate of a policy that passed: by the hash of its file, with nothing in it that differs from run to run.

Policies that come with the package have theirs beside them, `policies/certificates/NAME.json`; others in the user's cache
folder, by hash.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twin.policy_sources import BUILT_IN

if TYPE_CHECKING:
    from twin.check.conformance import Report
    from twin.check.subject import Subject

VERSION = 1  # of the checks and of what a policy may ask: raise it when a policy that passed might not pass any more
SHIPPED = BUILT_IN / "certificates"
UNWRITTEN = ("cost",)  # real time differs from run to run


def certificate_for(policy_file: str | Path) -> Path | None:
    """The certificate that the policy has for its present content, or None."""
    policy_file = Path(policy_file)
    sha256 = hashlib.sha256(policy_file.read_bytes()).hexdigest()
    for path in (SHIPPED / f"{policy_file.stem}.json", cache_folder() / f"{sha256}.json"):
        if _vouches(path, sha256):
            return path
    return None


def _vouches(path: Path, sha256: str) -> bool:
    try:
        certificate = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(certificate, dict) and (certificate.get("sha256"), certificate.get("certificate")) == (sha256, VERSION)


def cache_folder() -> Path:
    """Where the certificates of a user's own policies are."""
    given = os.environ.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "twin" / "certificates"


def place_of(report: Report, subject: Subject) -> Path:
    """Where the certificate of this report belongs.

    Beside the policies only in a checkout, for one of them as it comes: what is installed is not written to.
    """
    about = report.subject
    as_it_comes = about["built_in"] and not subject.options
    if as_it_comes and (BUILT_IN.parent / "pyproject.toml").is_file():
        return SHIPPED / f"{about['policy']}.json"
    return cache_folder() / f"{about['sha256']}.json"


def content_of(report: Report, subject: Subject, version: str) -> dict[str, Any]:
    """What a certificate says; `version` is twin's."""
    from twin.check.checks import ABOUT  # the whole simulator, which whoever asks for a certificate need not load

    about = report.subject
    checks = {
        check: {"verdict": report.verdict(check), "scenarios": report.results[check].cases}
        for check in ABOUT
        if check not in UNWRITTEN
    }
    findings = [finding for check in checks for finding in report.results[check].findings]
    return {
        "certificate": VERSION,
        "policy": about["policy"],
        "class": about["class"],
        "file": Path(about["file"]).name,
        "sha256": about["sha256"],
        "parameters": about["parameters"],
        "options": subject.options,
        "parts": about["parts"],
        "predictor": subject.predictor,
        "versions": {"twin": version, "python": ".".join(platform.python_version_tuple()[:2])},
        "checks": checks,
        "findings": findings,
    }


def write(report: Report, subject: Subject, version: str) -> Path:
    """Writes the certificate of a policy that passed; raises OSError."""
    from twin.results.atomic import writing

    assert report.passed
    path = place_of(report, subject)
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path) as file:
        file.write((json.dumps(content_of(report, subject, version), indent=2) + "\n").encode())
    return path
