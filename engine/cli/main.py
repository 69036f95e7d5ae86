"""The engine's commands, and how they are started: as those of `twin`."""

from twin.cli.main import Program
from twin.cli.main import main as run_program

COMMANDS = {  # name: (module, what it does)
    "run": ("engine.cli.run", "play a trace on the real engine; same outputs as twin run"),
    "scenario": ("engine.cli.scenario", "play a hand-written micro-scenario on the real engine"),
    "oracle": ("engine.cli.oracle", "what vLLM's own scheduler decides in a micro-scenario; needs vLLM"),
    "profile": ("engine.cli.profile", "measure step times over a grid of batches; writes a profile table"),
    "check": ("engine.cli.check", "kernels and model against references on this machine's devices"),
}
ENGINE = Program("engine", COMMANDS, "python -m engine run policy=fcfs trace=chat")
ROOT = "engine"  # the file of conf/ that says what a run of the engine is made of


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    return run_program(arguments, ENGINE)
