"""`twin policy new NAME`: a commented start, or a copy of another policy, in a file of one's own."""

import re
from pathlib import Path

from twin.cli.errors import UserError, naming, of_file
from twin.cli.policy import parsed

HELP = """usage: python -m twin policy new NAME [from=POLICY] [policy_path=FOLDER]

Writes policies/NAME.py in the working directory: a policy of 15 lines with comments that runs at once.

options
  from=POLICY         start from a copy of this policy
  policy_path=FOLDER  write it there; runs then need the same policy_path=FOLDER

example: python -m twin policy new my_policy
"""
START = '''"""{title}: what this file is about."""

from twin.policy import Policy


class {class_name}(Policy):
    """Shortest prompt first. (Say here what yours does: `twin policy list` shows this line.)"""

    def __init__(self, grain_tokens: int = 64) -> None:  # an option, by name and type: policy.grain_tokens=128
        if grain_tokens < 1:
            raise ValueError(f"grain_tokens must be at least 1 token, not {{grain_tokens}}")
        self.grain_tokens = grain_tokens

    def order(self, request, view):  # asked when a request comes into the queue; the smallest goes first
        return request.prompt_tokens // self.grain_tokens

    # Hooks for other decisions: admit, chunk, victim, mode, pick, schedule. What is left out is done as vLLM V1 does it.
'''
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
VALUES = ("true", "false", "null", "nan", "inf")  # policy=true would be a value on the command line, not a word


def main(words: list[str]) -> int:
    """Writes the file and says what to do with it."""
    from twin.policies_registry import find
    from twin.policy_sources import BUILT_IN

    (name,), options = parsed(words, ("NAME",), ("from", "policy_path"))
    check_name(name)
    if (BUILT_IN / f"{name}.py").is_file():
        other = f"python -m twin policy new my_{name} from={name}"
        raise UserError(f"{name}: a policy of that name comes with twin; choose another name: {other}")
    path = options.get("policy_path")
    folder = Path("policies" if path is None else path)
    text, predicts = START.format(title=name.replace("_", " ").capitalize(), class_name=class_name(name, START)), False
    if "from" in options:
        with naming("from"):
            found = find(options["from"], path if folder.is_dir() else None)
            text = copied(found.file.read_text(encoding="utf-8"), found.policy.__name__, name)
            predicts = found.policy.needs_prediction
    file = written(folder / f"{name}.py", text)
    chosen = f"policy={name}" + ("" if path is None else f" policy_path={path}")
    predictor = " predictor=oracle" if predicts else ""
    print(f"written to {file}; try it, read its options, check it:")
    print(f"  python -m twin run {chosen}{predictor} trace=chat trace.num_requests=1000")
    print(f"  python -m twin run {chosen} --help")
    print(f"  python -m twin check {chosen}{predictor}")
    print("what a policy sees and decides: docs/policies.md, or python -m pydoc twin.policy")
    return 0


def check_name(name: str) -> None:
    """Raises `UserError` for what can be no policy's name."""
    if not NAME.fullmatch(name) or name.lower() in VALUES:
        letters = re.sub(r"\W+", "_", name.removesuffix(".py"), flags=re.ASCII).strip("_")
        better = letters if NAME.fullmatch(letters) and letters.lower() not in VALUES else f"policy_{letters}".rstrip("_")
        raise UserError(f"{name}: a policy's name is of letters, digits and _, a letter first, as in {better}")


def class_name(name: str, text: str) -> str:
    """`my_policy` as `MyPolicy`; no word that `text` has already."""
    words = "".join(f"{part[:1].upper()}{part[1:]}" for part in name.split("_"))
    return f"{words}Policy" if re.search(rf"\b{words}\b", text) else words


def copied(text: str, old: str, name: str) -> str:
    """The text of a policy with its class under another name."""
    new = class_name(name, text)
    return re.sub(rf"\b{old}\b(?=[(:)])", new, text) if re.search(rf"^class {old}\b", text, re.MULTILINE) else text


def written(file: Path, text: str) -> Path:
    """Writes a new file, folder and all; an older one stays."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as handle:
            handle.write(text)
    except FileExistsError as error:
        raise UserError(f"{file}: exists already; choose another name, or remove it") from error
    except OSError as error:
        raise UserError(of_file(error)) from error
    return file
