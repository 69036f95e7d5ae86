"""`twin policy show NAME`: one policy in full."""

import shlex

from twin.cli.errors import UserError, naming
from twin.cli.policy import parsed
from twin.cli.policy_catalogue import Entry, entry_of, unknown
from twin.policy_sources import names

HELP = """usage: python -m twin policy show NAME [policy_path=FOLDER]

Shows a policy's description, what it decides, its parameters, its file with the SHA-256.

options
  policy_path=FOLDER  where policies are looked for too, after ./policies

example: python -m twin policy show sarathi
"""


def main(words: list[str]) -> int:
    """Prints the text."""
    (name,), options = parsed(words, ("NAME",), ("policy_path",))
    path = options.get("policy_path")
    with naming("policy_path"):
        known = names(path)
    if name not in known:
        raise UserError(unknown(name, path))
    entry = entry_of(name, path)
    if entry.error:
        raise UserError(entry.error)
    print("\n".join(_lines(entry, path)))
    return 0


def _lines(entry: Entry, path: str | None) -> list[str]:
    assert entry.found is not None
    parameters = [f"  policy.{name}={default or '?'}  {type_text}" for name, type_text, default in entry.parameters]
    check = f"python -m twin check policy={entry.name}"
    check += f" policy_path={shlex.quote(path)}" if path else ""
    check += " predictor=oracle" if entry.needs_prediction else ""
    checked = "it has a certificate" if entry.checked else f"not in this form; {check}"
    return [
        f"{entry.name}: class {entry.found.policy.__name__} of {entry.found.file}",
        f"sha256 {entry.found.sha256}",
        "",
        entry.description,
        "",
        f"decides: {', '.join(entry.decides) or 'nothing, the vLLM V1 step as it is'}",
        f"needs a prediction: {'yes' if entry.needs_prediction else 'no'}",
        f"checked: {checked}",
        *(["parameters", *parameters] if parameters else ["parameters: none"]),
    ]
