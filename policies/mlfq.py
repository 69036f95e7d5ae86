"""Skip-join multi-level feedback queue: FastServe."""

from collections import deque
from heapq import heappop, heappush
from math import inf

from twin.policy import Policy, RequestView

EVER = 1 << 60  # steps
ROUNDING_S = 1e-9  # a quantum of so many steps ends with the last of them, whatever the sum of their times is rounded to
HOST_SHARE = 0.1  # of the host's blocks must be free for a request to push others out


class Mlfq(Policy):
    """Short jobs first without knowing who is short: who has run for long falls from queue to queue, preempted at any step.

    Source: FastServe (Wu et al., "Fast Distributed Inference Serving for Large Language Models", arXiv 2305.05920, 2023),
    and its code. Queue p has a quantum of q0 · ratio^p seconds and goes before queue p + 1; inside a queue it is first come,
    first served. It decides

    - where a request joins: not the highest queue but the first whose quantum covers the time of its prompt (skip-join:
      else a long prompt would be preempted before its first token);
    - who runs: the first in order, at every step. A request whose quantum is used up goes to the end of the next queue, one
      that is preempted before keeps its place and the rest of its quantum. Used time is time with a seat, whatever the batch
      does in it. In the lowest queue the quantum has no end;
    - who starves: after `promote_after_s` without a seat it goes to the end of the highest queue;
    - where the KV of a preempted request is: on the device (mode "keep"), until blocks run short. With a host pool blocks
      are kept free ahead of need: when fewer are, kept requests move out, the last in order first; where twice as many are,
      the first in order come back. (FastServe swaps by an estimated time of the next run; order stands for it here.) Where
      less than a tenth of the host pool is free, or there is none, who waits pushes nobody out, since what those have
      computed would be lost: it comes in when blocks are free. (FastServe then takes in no new requests at all.)

    It needs to know the time of a prompt. Of parallel samples (n > 1) all but the first run uncounted until preempted.
    Proactive swapping looks at every step while anybody is preempted: such stretches are not fast-forwarded.

    Parameters:
        q0_s: quantum of the highest queue, seconds; the paper takes about one iteration.
        ratio: of a queue's quantum to that of the queue above.
        levels: number of queues.
        per_prompt_token_s: seconds a prompt token takes to compute; 0: every request joins the highest queue.
        promote_after_s: seconds without a seat after which a request is promoted; 0: never.
        free_share: share of the device's blocks that proactive swapping keeps free; 0: no proactive swapping.
    """

    preempts = True
    steady = True  # but for steady_until

    def __init__(
        self,
        q0_s: float = 0.010,
        ratio: float = 2.0,
        levels: int = 16,
        per_prompt_token_s: float = 0.0001,
        promote_after_s: float = 3.0,
        free_share: float = 0.02,
    ) -> None:
        if not 0 < q0_s < inf:
            raise ValueError(f"q0_s must be above 0 seconds, not {q0_s}")
        if not 1 <= ratio <= 100:
            raise ValueError(f"ratio must be 1 to 100, not {ratio}")
        if not 1 <= levels <= 64:
            raise ValueError(f"levels must be 1 to 64 queues, not {levels}")
        if not 0 <= per_prompt_token_s < inf:
            raise ValueError(f"per_prompt_token_s must be 0 or more seconds, not {per_prompt_token_s}")
        if not promote_after_s >= 0:
            raise ValueError(f"promote_after_s must be 0 (never) or more seconds, not {promote_after_s}")
        if not 0 <= free_share < 1:
            raise ValueError(f"free_share must be 0 (no proactive swapping) or more, and less than 1, not {free_share}")
        self.quanta_s = [q0_s * ratio**level for level in range(levels - 1)] + [inf]
        self.per_prompt_token_s, self.promote_after_s = per_prompt_token_s, promote_after_s or inf
        self.free_share = free_share
        if not free_share:
            self.background = None  # type: ignore
        self.jobs: dict[RequestView, _Job] = {}
        self.line: list[tuple[int, float, float, str, RequestView]] = []  # who waits; valid while in order so
        self.demotions: list[tuple[float, str, _Job]] = []  # when a quantum is used up; valid while the job still says so
        self.seatless: deque[tuple[float, _Job]] = deque()  # below the highest queue, since when; valid likewise

    # --- the order

    def order(self, request, view):
        job = self.job(request)
        return job.level, job.entered_s

    def victim(self, running, view):
        return max(running, key=lambda request: (self.order(request, view), request.arrival_s))

    def mode(self, request, view):
        return "keep"

    def on_wait(self, request, view):
        job = self.job(request)
        heappush(self.line, (job.level, job.entered_s, request.arrival_s, request.id, request))

    def pick(self, view):
        """The first in order; nobody, where the blocks of others would have to be given up for it."""
        while self.line and not self.is_current(self.line[0]):
            heappop(self.line)
        if not self.line:
            return None
        first = self.line[0][-1]
        return first if self.blocks_to_spare(first, view) >= 0 else None

    def blocks_to_spare(self, first, view):
        """Beyond those that the first in order needs; without bound while the host has room for what it pushes out."""
        if view.free_host_blocks > HOST_SHARE * view.limits.num_host_blocks:
            return inf
        return view.free_blocks - -(-(first.prompt_tokens + first.generated) // view.limits.block_size)

    def is_current(self, entry):
        level, entered_s, _, _, request = entry
        job = self.jobs.get(request)
        return request.state == "waiting" and job is not None and (job.level, job.entered_s) == (level, entered_s)

    def job(self, request):
        found = self.jobs.get(request)
        if found is None:
            level = self.first_level(request.prompt_tokens * self.per_prompt_token_s)
            found = self.jobs[request] = _Job(request, level, self.quanta_s[level])
        return found

    def first_level(self, prompt_s):
        """The highest queue whose quantum covers the prompt."""
        return next(level for level, quantum_s in enumerate(self.quanta_s) if quantum_s >= prompt_s * (1 - 1e-9))

    # --- what changes it

    def on_plan(self, view):
        now = view.now + ROUNDING_S
        self.demote(now, view)
        while (job := self.next_promotion()) and job.since_s + self.promote_after_s <= now:
            job.level, job.left_s = 0, self.quanta_s[0]
            job.entered_s = job.since_s + self.promote_after_s
            if job.request.state == "waiting":
                self.on_wait(job.request, view)

    def demote(self, now, view):
        """Those whose quanta are used up by now."""
        while (job := self.next_demotion()) and job.due_s <= now:
            job.level += 1
            job.entered_s, job.left_s = job.due_s, self.quanta_s[job.level]
            self.run_until(job, job.due_s + job.left_s)
            if job.request.state == "running":
                view.reorder(job.request)

    def key_steps(self, request, key, view):
        return EVER  # time alone changes it: see `demote`

    def steady_until(self, view):
        demoted, promoted = self.next_demotion(), self.next_promotion()
        demoted_s = demoted.due_s if demoted else inf
        return min(demoted_s, promoted.since_s + self.promote_after_s if promoted else inf) - ROUNDING_S

    def steady_steps(self, view):
        """While there are blocks to spare; who runs takes at most one in block_size steps."""
        first = self.pick(view)
        spare = inf if first is None else self.blocks_to_spare(first, view)
        if spare == inf:
            return EVER
        return 1 + view.limits.block_size * (spare // max(1, view.num_running))

    def next_demotion(self):
        while self.demotions and self.demotions[0][0] != self.demotions[0][-1].due_s:
            heappop(self.demotions)
        return self.demotions[0][-1] if self.demotions else None

    def next_promotion(self):
        while self.seatless and not self.seatless[0][1].waits_since(self.seatless[0][0]):
            self.seatless.popleft()
        return self.seatless[0][1] if self.seatless else None

    def run_until(self, job, due_s):
        job.due_s = due_s
        if due_s < inf:
            heappush(self.demotions, (due_s, job.request.id, job))

    def wait_from(self, job, since_s):
        job.since_s = since_s
        if job.level:
            self.seatless.append((since_s, job))

    def on_arrival(self, request, view):
        self.wait_from(self.job(request), request.arrival_s)

    def on_admit(self, request, view):
        job = self.job(request)
        job.since_s = inf
        self.run_until(job, view.now + job.left_s)

    def on_preempt(self, request, mode, view):
        self.demote(view.now + ROUNDING_S, view)  # a pause comes between plans
        job = self.job(request)
        job.left_s, job.due_s = min(job.left_s, job.due_s - view.now), inf
        self.wait_from(job, view.now)

    def on_finish(self, request, view):
        job = self.jobs.pop(request, None)
        if job is not None:
            job.due_s = job.since_s = inf

    # --- proactive swapping

    def background(self, view):
        if not view.limits.num_host_blocks:
            self.background = None  # type: ignore  # there is nowhere to swap to: nobody need ask again
            return []
        ahead = int(self.free_share * view.limits.num_blocks)
        free = view.free_blocks
        moves = []
        if free < ahead:
            kept = [request for request in view.swapped if not request.host_blocks]
            for request in reversed(self.in_order(kept, view)):
                if free < ahead and (blocks := request.private_blocks):
                    moves.append((request, "out"))
                    free += blocks
        elif free > 2 * ahead:
            for request in self.in_order(view.swapped, view)[: view.limits.max_num_seqs]:
                if request.host_blocks and free - request.host_blocks >= 2 * ahead:
                    moves.append((request, "in"))
                    free -= request.host_blocks
        return moves

    def in_order(self, requests, view):
        return sorted(requests, key=lambda request: (self.order(request, view), request.arrival_s))


class _Job:
    """A request's place among the queues."""

    __slots__ = ("request", "level", "entered_s", "left_s", "due_s", "since_s")

    def __init__(self, request: RequestView, level: int, quantum_s: float) -> None:
        self.request = request
        self.level = level
        self.entered_s = request.arrival_s  # into that queue
        self.left_s = quantum_s  # of the quantum, while it has no seat
        self.due_s = inf  # while it has one: when the quantum is used up
        self.since_s = inf  # without a seat since then

    def waits_since(self, since_s: float) -> bool:
        return self.level > 0 and self.since_s == since_s and self.request.state in ("waiting", "swapped")
