"""`engine run`: play a trace on the real engine; the same summary and run folder as `twin run`."""

from engine.cli.main import ROOT
from engine.cli.words import torch_or_explain, users_mistakes
from twin.cli import streams
from twin.cli.compose import compose
from twin.cli.helptext import help_text, wants_help

DOES = (
    "Plays a trace on the real engine (a transformer with a paged KV cache) under a policy, in real time; prints a summary\n"
    "table and writes a run folder, both as twin run does. On a CPU a trace is scaled to what it does in a minute."
)
EXAMPLE = "python -m engine run policy=fcfs trace=chat"
RATES = ("trace.rate", "trace.arrivals", "trace.path")  # whoever gives one of them says when requests come
DONE = 0


def main(words: list[str]) -> int:
    """Composes, loads the model, builds, claims the folder, plays, saves; returns the exit status."""
    if wants_help(words):
        print(help_text("run", DOES, EXAMPLE, words, program="engine", root=ROOT), end="")
        return DONE
    torch_or_explain()
    from engine.cli.backend import EngineBackend
    from twin.cli.folder import claim
    from twin.cli.job import build, command_line
    from twin.cli.run import carry_out, show

    composed = compose(words, root=ROOT)
    command = command_line("run", words, "engine")
    backend = EngineBackend(rate_given=any(map(composed.given, RATES)))
    with users_mistakes():
        if composed.values.get("seeds") != 1:
            from twin.cli.seeds import run_seeds

            return run_seeds(composed, command, backend)
        job = build(composed, command, backend)
    folder = claim(composed.run_dir, composed.given("hydra.run.dir"))
    with streams.work_first():
        print("\n".join(job.lines), flush=True)
        outcome, summary = carry_out(job, folder)
        show(summary, outcome, folder, "engine run")
    return outcome.status
