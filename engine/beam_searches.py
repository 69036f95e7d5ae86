"""The beam searches under way: between the logic of a search (sampling/beam.py), the core's beams, and the tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.sampling.beam import BeamGroup, Candidate, Hypothesis
from engine.sampling.params import SamplingParams
from engine.sequences import Sequences
from twin.core.beams import Beams
from twin.core.request import Request


class BeamSearch:
    """The search of one request. `offered`: of each member the (token, log-probability) pairs of the step just computed."""

    def __init__(
        self, request: Request, sampling: SamplingParams, stop_ids: tuple[int, ...], sequences: Sequences,
        forget: Callable[[Request], object],
    ) -> None:  # fmt: skip
        """`forget` is told of beams that are nobody's any more."""
        self.request, self.sampling, self.stop_ids, self.sequences = request, sampling, stop_ids, sequences
        self.forget = forget
        self.num_candidates = self._new_group().num_candidates
        self.group: BeamGroup | None = None
        self.offered: dict[Request, list[tuple[int, float]]] = {}
        request.beams = Beams(self.choose, self.restart)

    def _new_group(self) -> BeamGroup:
        sampling = self.sampling
        width, penalty, early = sampling.beam_width, sampling.length_penalty, sampling.early_stopping
        return BeamGroup(width, penalty, early, self.stop_ids, min(self.request.stop_after, self.request.max_tokens))

    def choose(self, members: list[Request]) -> list[int]:
        """The core asks when the logits of all members are there: the member that each beam of the next step continues."""
        if self.group is None:
            self.group = self._new_group()  # the core knows by now how many tokens there may be
        parents = members if self.group.beams[0].tokens else members[:1]  # at first there is the prompt alone
        candidates = [
            Candidate(place, token, log_prob)
            for place, member in enumerate(parents)
            for token, log_prob in self.offered[member]
        ]
        self.offered.clear()
        step = self.group.step(candidates)
        sequences = self.sequences
        branches = [[*sequences.of(members[parent]).tokens, token] for parent, token in step.beams]
        for member, tokens in zip(members, branches, strict=False):
            sequences.of(member).tokens = tokens
        return [parent for parent, _ in step.beams]

    def restart(self, others: list[Request]) -> None:
        """Its beams were preempted, and it begins again as its prompt."""
        for other in others:
            self.forget(other)
        self.group = None
        self.offered.clear()
        first = self.sequences.of(self.request)
        del first.tokens[first.prompt_tokens :]

    def hypotheses(self) -> Sequence[Hypothesis]:
        """The best, once the search is over, the best one first."""
        return () if self.group is None else self.group.hypotheses
