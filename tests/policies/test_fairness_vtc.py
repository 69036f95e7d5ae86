"""The virtual token counter: counters by hand, the lift, weights, prediction, the profiled cost, and its bound."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.fcfs import Fcfs
from policies.lcf import Lcf
from policies.vtc import Vtc
from tests.policies.scenarios import played, request
from tests.sim.cases import Case, cases, difference
from traces.trace import Trace
from twin.core.limits import Limits
from twin.latency.linear import LinearLatency
from twin.policy import Policy, user_weights
from twin.predictor import Predictor
from twin.predictors.oracle import Oracle
from twin.sim.scenario import play
from twin.sim.scenario_file import read_scenario
from twin.sim.simulation import Setup, Simulation


class Watched(Vtc):
    """Notes the counters after each admission and each step."""

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.notes: list[tuple[str, dict[str, float]]] = []

    def note(self, what: str) -> None:
        self.notes.append((what, {str(user): account.counter for user, account in self.accounts.items()}))

    def on_admit(self, request, view):
        super().on_admit(request, view)
        self.note(f"{request.id} comes in")

    def on_step(self, view, batch, k):
        super().on_step(view, batch, k)
        self.note("step")

    def on_finish(self, request, view):
        super().on_finish(request, view)
        self.note(f"{request.id} ends")

    def counters(self, what: str) -> dict[str, float]:
        """The first note of that kind."""
        return next(counters for noted, counters in self.notes if noted == what)


def watched(requests: list[dict[str, Any]], blocks: int = 64, predictor: Predictor | None = None, **more: Any) -> Watched:
    """Played one second a step, with vtc's parameters in `vtc`."""
    policy = Watched(**more.pop("vtc", {}))
    content = {"cache": {"num_gpu_blocks": blocks}, "scheduler": more, "policy": {"name": "vtc"}, "requests": requests}
    scenario = read_scenario({**content, "latency": {"base_s": 1.0}}, "scenario")
    list(play(scenario, policy, predictor=predictor))
    return policy


def order_of_admission(steps: list[dict[str, Any]]) -> list[str]:
    return [name for step in steps for name in step["admitted"]]


def test_vtc_01_charged_at_admission_for_the_prompt_and_per_token_for_the_output():
    requests = [request("a1", 100, 9, user="a"), request("a2", 100, 9, user="a"), request("b1", 50, 9, user="b")]
    policy = watched(requests, max_num_batched_tokens=2048)
    assert policy.notes[:4] == [
        ("a1 comes in", {"a": 100, "b": 0}),
        ("b1 comes in", {"a": 100, "b": 50}),
        ("a2 comes in", {"a": 200, "b": 50}),
        ("step", {"a": 204, "b": 52}),
    ]


def test_the_waiting_user_with_the_smallest_counter_is_next_whenever_a_seat_is_free():
    """One seat, a token each: 12 and 22 a request. b's third turn comes at 36 against 44."""
    requests = [request(f"a{turn}", 20, 1, user="a") for turn in range(3)]
    requests += [request(f"b{turn}", 10, 1, user="b") for turn in range(4)]
    steps, _ = played("vtc", requests, 64, max_num_seqs=1)
    assert order_of_admission(steps) == ["a0", "b0", "b1", "a1", "b2", "b3", "a2"]


def test_a_user_who_was_idle_is_lifted_to_the_smallest_counter_of_those_who_wait():
    """b comes when a, who waits, has 36. Without the lift b has all of its turns before a's next."""
    requests = [request(f"a{turn}", 10, 1, user="a") for turn in range(6)]
    requests += [request(f"b{turn}", 10, 1, 2.5, user="b") for turn in range(3)]
    steps, _ = played("vtc", requests, 64, max_num_seqs=1)
    assert order_of_admission(steps) == ["a0", "a1", "a2", "a3", "b0", "a4", "b1", "a5", "b2"]
    steps, _ = played("lcf", requests, 64, max_num_seqs=1)
    assert order_of_admission(steps) == ["a0", "a1", "a2", "b0", "b1", "b2", "a3", "a4", "a5"]


def test_the_lift_takes_nothing_away():
    requests = [request("a0", 100, 9, user="a"), request("b0", 10, 9, user="b"), request("b1", 10, 9, user="b")]
    policy = watched([*requests, request("a1", 10, 9, 1.5, user="a")], max_num_seqs=2)
    assert policy.counters("a0 comes in") == {"a": 100, "b": 0}
    assert policy.counters("step") == {"a": 102, "b": 12}
    assert [counters["a"] for _, counters in policy.notes[3:5]] == [104, 106]  # b waits with 14: no reason to change a's


def test_if_nobody_waits_the_lift_is_to_the_last_user_who_left_the_queue():
    """a came to b's 3, left the queue last, and has 3 + 10 + 2·3 when c comes, at 4 s; b has 1 + 2·4."""
    requests = [request("b0", 1, 9, user="b"), request("a0", 10, 9, 0.5, user="a"), request("c0", 5, 9, 3.5, user="c")]
    policy = watched(requests)
    before = policy.notes[policy.notes.index(("c0 comes in", policy.counters("c0 comes in"))) - 1][1]
    assert before == {"b": 9, "a": 19}
    assert policy.counters("c0 comes in") == {"b": 9, "a": 19, "c": 19 + 5}


def test_an_abort_in_the_queue_counts_as_leaving_it():
    """One seat. b, who came to a's 11 + 2, gives up, last of all: that is where c begins."""
    requests = [request("a0", 11, 4, user="a"), request("b0", 1, 9, 0.5, user="b", abort_s=1.2)]
    policy = watched([*requests, request("c0", 5, 9, 2.5, user="c")], max_num_seqs=1)
    assert policy.counters("b0 ends")["b"] == 13
    assert policy.counters("c0 comes in") == {"a": 19, "b": 13, "c": 13 + 5}


def test_what_an_aborted_request_was_served_stays_charged():
    policy = watched([request("a0", 10, 9, user="a", abort_s=2.5)])
    assert policy.counters("a0 ends") == {"a": 14}  # the token of the step under way is lost


@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_a_prompt_is_not_charged_again_after_a_preemption(mode):
    """Two of 16 + 17 tokens need three blocks each and there are five: b, the last, gives way when both need a third."""
    requests = [request("a0", 16, 18, user="a"), request("b0", 16, 18, user="b")]
    content = {
        "cache": {"num_gpu_blocks": 5, "block_size": 16, "num_cpu_blocks": 4},
        "policy": {"name": "vtc", "preemption_mode": mode},
        "latency": {"base_s": 1.0},
        "requests": requests,
    }
    policy = Watched()
    *_, last = play(read_scenario(content, "scenario"), policy)
    assert last["summary"]["requests"]["b0"]["preemptions"] == 1
    assert policy.notes[-1][1] == {"a": 16 + 2 * 18, "b": 16 + 2 * 18}


def test_a_user_of_twice_the_weight_gets_twice_the_turns():
    requests = [request(f"{user}{turn}", 10, 1, user=user) for turn in range(6) for user in "ab"]
    steps, _ = played({"name": "vtc", "weights": "b:2"}, requests, 64, max_num_seqs=1)
    assert order_of_admission(steps)[:9] == ["a0", "b0", "b1", "a1", "b2", "b3", "a2", "b4", "b5"]  # 12 a turn against 6


def test_a_prediction_is_charged_at_admission_and_put_right_at_the_end():
    requests = [request("a0", 10, 5, user="a"), request("a1", 10, 5, user="a", abort_s=2.5)]
    policy = watched(requests, predictor=Oracle(), vtc={"predict": True})
    assert policy.counters("a0 comes in") == {"a": 10 + 2 * 5}
    assert policy.counters("step") == {"a": 2 * (10 + 2 * 5)}
    assert policy.counters("a1 ends") == {"a": 10 + 2 * 5 + 10 + 2 * 2}  # two of its five tokens came
    assert policy.notes[-1][1] == {"a": 20 + 2 * (5 + 2)}


class Two(Predictor):
    def predict(self, request, output_tokens):
        return 2


def test_tokens_beyond_the_prediction_are_charged_as_they_come():
    policy = watched([request("a0", 10, 4, user="a")], predictor=Two(), vtc={"predict": True})
    assert [counters["a"] for _, counters in policy.notes] == [14, 14, 14, 16, 18, 18]


def profiled(prompt: int, output: int) -> float:
    """The paper's cost of a request, Llama-2-7B on an A10G."""
    return 2.1 * prompt + output + 0.04 * prompt * output + 0.032 * output * output + 11.46


def test_the_profiled_cost_of_a_request_is_the_papers_at_every_token():
    policy = watched([request("a0", 100, 5, user="a"), request("a1", 30, 3, 2.5, user="a")], vtc={"cost": "profiled"})
    counters = [counters["a"] for what, counters in policy.notes if what == "step"]
    alone = [profiled(100, tokens) for tokens in (1, 2, 3)]
    both = [profiled(100, 4) + profiled(30, 1), profiled(100, 5) + profiled(30, 2), profiled(100, 5) + profiled(30, 3)]
    assert counters == pytest.approx(alone + both)


@pytest.mark.parametrize("text", ["a", "a:", ":2", "a:0", "a:-1", "a:nan", "a:inf", "a:2,,b:1", "a:x"])
def test_weights_that_are_none_are_refused(text):
    with pytest.raises(ValueError, match="weights must be user:weight"):
        Vtc(weights=text)


def test_weights_are_read_by_the_last_colon_and_each_user_once():
    assert user_weights("team:red:2, b:0.5") == {"team:red": 2.0, "b": 0.5}
    assert user_weights("") == {}
    with pytest.raises(ValueError, match="name a user once, not a twice"):
        user_weights("a:1,a:2")


@pytest.mark.parametrize("name", ["prompt_weight", "output_weight"])
@pytest.mark.parametrize("policy", [Vtc, Lcf])
def test_negative_prices_are_refused(policy, name):
    with pytest.raises(ValueError, match=f"{name} must be 0 or more"):
        policy(**{name: -1.0})


# --- accounts come out even, however it went


class Profiled(Vtc):
    def __init__(self) -> None:
        super().__init__(cost="profiled", weights="u1:2")


class Predicted(Vtc):
    def __init__(self) -> None:
        super().__init__(predict=True)


class PredictedProfiled(Vtc):
    def __init__(self) -> None:
        super().__init__(predict=True, cost="profiled", weights="u0:0.5")


class Rough(Predictor):
    """Too much for some, too little for others."""

    needs_length = True

    def predict(self, request, output_tokens):
        return output_tokens * 2 * self.uniform(request.id)


@settings(max_examples=30, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(case=cases(policies=(Vtc, Profiled, Predicted, PredictedProfiled)), alone=st.booleans())
def test_in_the_end_a_user_has_been_charged_what_its_requests_were_served(case: Case, alone: bool) -> None:
    trace, policy = replace(case.trace, n=None) if alone else case.trace, case.policy()
    setup = case.setup()
    setup.policy, setup.predictor = policy, Rough()
    outcome = Simulation(setup, trace).run()
    again = case.setup()
    again.policy, again.predictor = case.policy(), Rough()
    assert difference(outcome, Simulation(again, trace, step_by_step=True).run()) is None
    if not alone:
        return
    for user in set(trace.user):
        rows = [
            row for row in range(len(trace)) if trace.user[row] == user and outcome.requests["first_scheduled_s"][row] >= 0
        ]
        prompts = trace.prompt_tokens[rows]
        outputs = np.array([outcome.requests["generated_tokens"][row] for row in rows], dtype=int)
        account = policy.accounts[user]
        assert account.prompts == prompts.sum()
        if isinstance(policy, Profiled | Predicted | PredictedProfiled):
            served = len(rows), outputs.sum(), (prompts * outputs).sum(), (outputs**2).sum()
            assert (account.requests, account.outputs, account.products, account.squares) == served
        elif not case.rules.async_scheduling:  # asynchronous: one more token may be computed, and dropped
            assert account.outputs == outputs.sum()


# --- the theorem


class Service:
    """What each user has been served, counted beside the policy, while both of them wait."""

    def __init__(self, policy: type[Policy]) -> None:
        self.served = {"f": 0, "g": 0}
        self.differences: list[int] = []  # of f to g, after each step in which both wait
        self.times: list[float] = []
        self.waiting: Counter[str] = Counter()
        watch = self

        class Watch(policy):  # type: ignore[misc, valid-type]
            def on_wait(self, request, view):
                if super().on_wait is not None:
                    super().on_wait(request, view)
                watch.waiting[request.user] += 1

            def on_admit(self, request, view):
                if super().on_admit is not None:
                    super().on_admit(request, view)
                watch.waiting[request.user] -= 1
                if not request.preemptions:
                    watch.served[request.user] += request.prompt_tokens

            def on_step(self, view, batch, k):
                if super().on_step is not None:
                    super().on_step(view, batch, k)
                for user, tokens in batch.by_user.items():
                    watch.served[user] += 2 * tokens * k
                if watch.waiting["f"] and watch.waiting["g"]:
                    watch.differences.append(watch.served["f"] - watch.served["g"])
                    watch.times.append(view.now)

        self.policy = Watch()


def overload(policy: type[Policy], seconds: int = 360) -> Service:
    """fair-01: two clients of 1.5 and 3 requests/s, 256 + 256 tokens each, a pool of 10,000 tokens.

    A step takes 33 ms + 0.2 ms a prompt token + 0.5 µs a token of context, about an A10G with Llama-2-7B: the server
    manages some two requests/s, so that both are backlogged from the first seconds on.
    """
    rates = {"f": 1.5, "g": 3.0}
    arrivals = sorted((turn / rate, user) for user, rate in rates.items() for turn in range(int(rate * seconds)))
    count = len(arrivals)
    lengths = np.full(count, 256)
    trace = Trace("overload", np.array([at for at, _ in arrivals]), lengths, lengths, user=[user for _, user in arrivals])
    limits = Limits(num_blocks=625, block_size=16, max_num_seqs=1000, max_num_batched_tokens=3072, max_model_len=3072)
    service = Service(policy)
    latency = LinearLatency(base_s=0.033, per_prefill_token_s=2e-4, per_context_token_s=5e-7)
    outcome = Simulation(Setup(limits, service.policy, latency), trace, step_by_step=True).run()
    assert outcome.complete
    return service


def test_fair_01_the_services_of_two_backlogged_clients_stay_within_the_bound_at_every_step():
    """|W_f - W_g| <= 2 max(w_p L_in, w_q M) = 40,000 over any interval, if over the one from the least to the most."""
    service = overload(Vtc)
    assert len(service.differences) > 5000
    assert max(service.differences) - min(service.differences) <= 2 * max(1 * 256, 2 * 10_000)


def test_fair_01_under_fcfs_the_services_go_as_the_rates_and_the_difference_grows():
    service = overload(Fcfs)
    assert service.served["g"] / service.served["f"] == pytest.approx(2, abs=0.01)
    times, behind = np.array(service.times), -np.array(service.differences)
    half, end = np.searchsorted(times, [times[-1] / 2, times[-1]])
    assert behind[end] / behind[half] == pytest.approx(2, abs=0.1)  # linearly
    assert behind[end] > 40_000
