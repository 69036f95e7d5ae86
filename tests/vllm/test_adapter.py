"""engine.vllm: how a policy is chosen, what is refused and in which words, what a request may bring."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.oracle import versions
from engine.oracle.build import make_request
from engine.oracle.ours import play_ours, with_rules_of
from engine.oracle.play import Play
from tests.sim.test_vllm_rules import STALE
from twin.core.errors import PolicyError
from twin.sim.scenario_file import read_scenario

REQUESTS = [{"id": name, "prompt_tokens": 4, "output_tokens": tokens} for name, tokens in (("A", 6), ("B", 2), ("C", 4))]
ONE_SEAT = {"cache": {"num_gpu_blocks": 64, "block_size": 4}, "scheduler": {"max_num_seqs": 1}, "requests": REQUESTS}


@pytest.fixture(autouse=True)
def vllm_is_here(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if version not in ("0.33", "0.32"):
        pytest.skip(f"engine.vllm does not run with vLLM {version}")
    monkeypatch.delenv("TWIN_POLICY", raising=False)
    monkeypatch.delenv("TWIN_POLICY_PATH", raising=False)


def played(twin: Any, content: dict = ONE_SEAT, scheduler: str = "TwinScheduler", **extra: Any) -> Play:
    """After its end. `extra`: what each request brings, by name; default: its true length as the prediction."""
    import engine.vllm

    def of(row: Any) -> dict:
        return extra.get(row.id, {"twin_predicted_output": row.output_tokens})

    configuration = {} if twin is None else {"twin": twin}
    play = Play(read_scenario(content, "here"), getattr(engine.vllm, scheduler), True, configuration, of)
    play.run()
    return play


def order_of(play: Play) -> list[str]:
    return [name for row in play.rows for name in row["finished"]]


# --- which policy


def test_additional_config_says_it_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one seat sjf takes C (4 tokens) before A (6), B first; lof the longest first."""
    assert order_of(played(None)) == ["A", "B", "C"]
    assert order_of(played({"policy": "sjf"})) == ["B", "C", "A"]
    assert order_of(played("sjf")) == ["B", "C", "A"]
    monkeypatch.setenv("TWIN_POLICY", "lof")
    assert order_of(played(None)) == ["A", "C", "B"]
    assert order_of(played({"policy": "sjf"})) == ["B", "C", "A"]  # the configuration wins
    monkeypatch.setenv("TWIN_POLICY", "sjf(size=total)")
    assert order_of(played(None)) == ["B", "C", "A"]


def test_a_policy_by_its_own_name_and_its_parameters_beside_it() -> None:
    assert order_of(played(None, scheduler="sjf")) == ["B", "C", "A"]
    assert order_of(played({"size": "total"}, scheduler="sjf")) == ["B", "C", "A"]
    with pytest.raises(ValueError, match="the scheduler is engine.vllm.sjf, but additional_config says twin.policy=lof"):
        played({"policy": "lof"}, scheduler="sjf")


def test_a_policy_of_ones_own_from_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no certificate: that is said, and it runs."""
    from engine.vllm import _options

    (tmp_path / "last_first.py").write_text(
        "from twin.policy import Policy\n\n\nclass LastFirst(Policy):\n"
        '    """The last in the alphabet first."""\n\n'
        "    def order(self, request, view):\n        return -ord(request.id)\n"
    )
    told: list[str] = []
    monkeypatch.setattr(_options.logger, "warning", lambda words, *values: told.append(words % values))
    monkeypatch.setenv("TWIN_POLICY_PATH", str(tmp_path))
    assert order_of(played(None, scheduler="last_first")) == ["C", "B", "A"]
    (line,) = told
    assert line.startswith("policy=last_first: ") and "has no certificate for its present content" in line


def test_an_unknown_policy_is_no_attribute() -> None:
    import engine.vllm

    with pytest.raises(AttributeError, match=r"engine.vllm.sjff: policy=sjff: no such policy; did you mean sjf") as error:
        engine.vllm.sjff  # noqa: B018
    assert "\n" not in str(error.value)


def test_no_module_hides_a_policy() -> None:
    import engine.vllm

    modules = [file.stem for file in Path(str(engine.vllm.__file__)).parent.glob("*.py")]
    assert all(name.startswith("_") for name in modules)


# --- what is refused at the start


@pytest.mark.parametrize(
    ("twin", "words"),
    [
        ({"policy": "sjf", "sizes": "total"}, "policy.sizes: no such parameter of policy=sjf; did you mean policy.size"),
        ({"policy": "fcfs", "preemption_mode": "swap"}, "twin.preemption_mode: vLLM recomputes"),
        ({"policy": "fcfs", "pause": "keep"}, "twin.pause: vLLM knows of no pauses"),
        ({"policy": "sjf", "predictor": "oracle"}, "twin.predictor=oracle: it works on true lengths"),
        ({"alpha": 3}, "additional_config has twin, but no twin.policy"),
        ({"policy": 3}, "twin.policy must be a policy's name, not 3"),
    ],
)
def test_a_mistake_in_the_configuration(twin: dict, words: str) -> None:
    with pytest.raises(ValueError) as refused:
        played(twin)
    assert words in str(refused.value) and "\n" not in str(refused.value)


def configured(**changes: Any) -> Any:
    """A configuration of vLLM's as far as the refusals look at it."""
    parts = {
        "additional_config": {"twin": {"policy": "sjf"}},
        "scheduler_config": SimpleNamespace(policy="fcfs"),
        "model_config": SimpleNamespace(runner_type="generate", is_encoder_decoder=False),
        "parallel_config": SimpleNamespace(pipeline_parallel_size=1),
        "speculative_config": None,
        "kv_transfer_config": None,
    }
    return SimpleNamespace(**(parts | changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scheduler_config": SimpleNamespace(policy="priority")}, "with --scheduling-policy priority: leave that out"),
        ({"speculative_config": object()}, "with speculative decoding"),
        ({"kv_transfer_config": object()}, "with a KV connector"),
        ({"parallel_config": SimpleNamespace(pipeline_parallel_size=2)}, "with pipeline parallelism"),
        ({"model_config": SimpleNamespace(runner_type="pooling", is_encoder_decoder=False)}, "with a pooling model"),
    ],
)
def test_what_of_vllm_a_policy_does_not_know(changes: dict, words: str) -> None:
    from engine.vllm._options import Refused, chosen

    assert chosen(configured()) is not None
    with pytest.raises(Refused, match=f"policy sjf cannot run in vLLM {words}"):
        chosen(configured(**changes))


# --- what a request brings


def test_a_request_without_a_prediction_is_refused_where_one_is_needed() -> None:
    """It ends with an error; the others are served."""
    play = played({"policy": "sjf"}, C={})
    assert order_of(play) == ["B", "A"]
    assert {name: followed.status for name, followed in play.requests.items()} == {
        "A": "finished", "B": "finished", "C": "rejected",
    }  # fmt: skip


def test_a_predictor_predicts_those_that_bring_none() -> None:
    """C counts as 1 token; A and B bring what they have."""
    assert order_of(played({"policy": "sjf", "predictor": "constant(tokens=1)"}, C={})) == ["C", "B", "A"]


@pytest.mark.parametrize(
    ("extra", "served"),
    [
        ({"twin_predicted_output": "3"}, True),  # JSON through a form
        ({"twin_predicted_output": "soon"}, False),
        ({"twin_predicted_output": float("nan")}, False),
        ({"twin_predicted": 3}, False),
        ({"other": 3, "twin_predicted_output": 3}, True),
    ],
)
def test_what_a_request_says_is_understood_or_the_request_refused(extra: dict, served: bool) -> None:
    play = played({"policy": "sjf"}, B=extra)
    assert play.requests["B"].status == ("finished" if served else "rejected")
    assert play.requests["A"].status == "finished"


def test_a_policy_hears_nothing_of_a_request_that_is_refused(tmp_path: Path) -> None:
    """on_finish of one that never arrived would be a KeyError here."""
    (tmp_path / "watching.py").write_text(
        'from twin.policy import Policy\n\n\nclass Watching(Policy):\n    """Keeps who is there."""\n\n'
        "    def __init__(self):\n        self.there = set()\n\n"
        "    def on_arrival(self, request, view):\n        self.there.add(request.id)\n\n"
        "    def on_finish(self, request, view):\n        self.there.remove(request.id)\n"
    )
    play = played({"policy": "watching", "policy_path": str(tmp_path)}, B={"twin_predicted": 3})
    assert order_of(play) == ["A", "C"] and play.requests["B"].status == "rejected"


def test_a_deadline_is_a_time_or_a_distance_from_the_arrival() -> None:
    """All come at 0: B has 9 s, C until 5."""
    extra = {"A": {}, "B": {"twin_within_s": 9}, "C": {"twin_deadline_s": 5.0}}
    assert order_of(played({"policy": "edf"}, **extra)) == ["C", "B", "A"]


def test_a_priority_is_its_own_field_or_an_extra_argument() -> None:
    content = ONE_SEAT | {"requests": [row | {"priority": place} for place, row in enumerate(REQUESTS)]}
    assert order_of(played({"policy": "priority"}, content)) == ["A", "B", "C"]
    assert order_of(played({"policy": "priority"}, content, C={"twin_priority": -1})) == ["C", "A", "B"]


# --- what goes wrong


BUGS = {
    "order": ("def order(self, request, view):\n        return 1 / request.generated", "raised ZeroDivisionError"),
    "no key": ("def order(self, request, view):\n        pass", "order() returned None for A: it must return a key"),
    "a slip": ("def order(self, request, view):\n        return request.prompt", "a request has no prompt"),
    "admit": (
        "def admit(self, request, view):\n        return 'yes'",
        "admit() must answer ADMIT, LATER or NEVER, not 'yes'",
    ),
    "chunk": ("def chunk(self, request, offered, view):\n        return 0", "chunk() gave request A 0 tokens of 4 on offer"),
    "on_step": ("def on_step(self, view, batch, k):\n        raise KeyError('x')", "raised KeyError: 'x'"),
    "on_finish": ("def on_finish(self, request, view):\n        view.now = 3", "a policy may not write now"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_in_a_policy_is_one_error_that_names_it(bug: str, tmp_path: Path) -> None:
    code, words = BUGS[bug]
    text = f'from twin.policy import Policy\n\n\nclass Wrong(Policy):\n    """It has a bug."""\n\n    {code}\n'
    (tmp_path / "wrong.py").write_text(text)
    with pytest.raises(PolicyError) as raised:
        played({"policy": "wrong", "policy_path": str(tmp_path)})
    message = str(raised.value)
    assert message.startswith("policy wrong, plan ") and words in message and "\n" not in message
    if "raised" in message:
        assert "wrong.py:8 raised" in message


def test_a_method_that_vllm_has_no_more_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.v1.core.sched.scheduler import Scheduler

    monkeypatch.delattr(Scheduler, "_free_request")
    with pytest.raises(ImportError, match="this vLLM has no Scheduler._free_request, which the adapter relies on"):
        played({"policy": "sjf"})


def test_an_attribute_that_vllm_has_no_more_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.v1.core.kv_cache_manager import KVCacheManager

    monkeypatch.delattr(KVCacheManager, "get_computed_blocks")
    with pytest.raises(ImportError, match="this vLLM has no Scheduler.kv_cache_manager.get_computed_blocks"):
        played({"policy": "sjf"})


def test_a_step_with_another_text_is_refused_for_preemptive_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.v1.core.sched.scheduler import Scheduler

    def schedule(self, throttle_prefills=False):
        while self.anybody_waits():
            break

    monkeypatch.setattr(Scheduler, "schedule", schedule)
    with pytest.raises(ImportError, match='no line "while token_budget > 0:" .* in the text of Scheduler.schedule'):
        played({"policy": "srpt"})


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import engine.vllm

    for version, words in (("0.21.0", "vLLM 0.21 is known to the oracle alone"), ("0.40.0", "vLLM 0.40.0 is installed")):
        monkeypatch.setattr(versions, "_distribution_version", lambda version=version: version)
        with pytest.raises(ImportError, match=words):
            engine.vllm.TwinScheduler  # noqa: B018


# --- vLLM's defect


def test_what_was_never_computed_is_not_found_in_the_cache(version: str) -> None:
    """The scenario of docs/vllm.md: vLLM's own priorities take 28 tokens of `first` from the cache, of which 16 were
    computed; with our `priority` in it 16 are taken, as in our simulator."""
    scenario = with_rules_of(read_scenario(STALE, "here"), version)
    found = played({"policy": "priority"}, STALE, first={}, second={})
    assert [row["cached_tokens"] for row in found.rows] == [row["cached_tokens"] for row in play_ours(scenario)[:-1]]
    assert found.rows[2]["cached_tokens"] == {"first": 16}


def test_requests_are_vllms_own(version: str) -> None:
    """The priority that vLLM's request had is kept apart: vLLM's field is used to name victims."""
    import engine.vllm

    scenario = read_scenario(ONE_SEAT, "here")
    play = Play(scenario, engine.vllm.TwinScheduler, True, {"twin": {"policy": "priority"}})
    request = make_request(scenario, scenario.requests[0], [1, 2, 3, 4], 6)
    request.priority = 7
    play.scheduler.add_request(request)
    assert (request.priority, request.twin_record.view.priority) == (0, 7)
