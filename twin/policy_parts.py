"""Policies put together: `policy=vtc policy.admission=past_future policy.victim=least_computed`.

A part is an ordinary policy of which one hook is taken:

    policy.admission=NAME           its `admit`; where the main policy has one too, both must say ADMIT
    policy.victim=NAME              its `victim`, in place of the main policy's
    policy.preemption_mode=NAME     its `mode`, in place of the main policy's
    policy.pause=NAME               its `pause`, in place of the main policy's

Who is found and made by these names is `twin.policy_assembly`'s affair. What keeps a part's state
(`STATE_HOOKS`) is called after the main policy's, and a plan is as steady as the least steady of all.
"""

from collections.abc import Callable, Mapping
from typing import Any

from twin.policy import ADMIT, Policy, declares_steady
from twin.policy_parameters import PolicyFileError

ROLES = {"admission": "admit", "victim": "victim", "preemption_mode": "mode", "pause": "pause"}  # policy.ROLE: hook taken
STATE_HOOKS = ("on_plan", "on_arrival", "on_wait", "on_admit", "on_preempt", "on_resume", "on_finish", "on_step")
OF_THE_MAIN_ONE = ("order", "pick", "chunk", "reserve", "schedule", "key_steps", "dynamic", "group", "preempts", "allocator")
EVER = 1 << 60  # steps

Hook = Callable[..., Any]


class Combined(Policy):
    """A main policy with parts; made by `combined`."""

    def __init__(self, main: Policy, parts: Mapping[str, Policy], names: Mapping[str, str]) -> None:
        self.members = tuple(dict.fromkeys((main, *parts.values())))
        self.labels = {part: f"policy.{role}={names.get(role, type(part).__name__)}" for role, part in parts.items()}
        self.labels[main] = f"policy {type(main).__name__}"
        for name in OF_THE_MAIN_ONE:
            setattr(self, name, getattr(main, name))
        for name in STATE_HOOKS:
            setattr(self, name, _one_after_another(self._hooks(name)))
        self.admit = _both(main, parts.get("admission", main))
        self.victim = parts.get("victim", main).victim
        self.mode = parts.get("preemption_mode", main).mode
        self.pause = parts.get("pause", main).pause
        if self._hooks("on_pause"):
            self._tell_of_pauses()
        self.background = _joined(self._hooks("background"))
        self.needs_prediction = any(member.needs_prediction for member in self.members)
        steps = self._hooks("steady_steps")
        if main.preempts and not (main.steady_steps or main.key_steps or declares_steady(main)):
            steps.append(lambda view: 0)  # of a preemptive order that says nothing nothing is known
        if main.schedule is not None and self.admit is not None and steps:
            self.admit = self._counted(self.admit)
            steps.append(self._unless_many_were_refused)
        self.steady_steps = _least(steps)
        self.steady_until = _least(self._hooks("steady_until"))

    def _hooks(self, name: str) -> list[Hook]:
        hooks = [getattr(member, name) for member in self.members]
        return [hook for hook in hooks if hook is not None]

    def _tell_of_pauses(self) -> None:
        """Who has no `on_pause` takes a pause for a preemption of whom had a seat, as it would alone."""
        seated: set[Any] = set()

        def come(request: Any, view: Any) -> None:
            seated.add(request)

        def go(request: Any, *_: Any) -> None:
            seated.discard(request)

        def on_pause(request: Any, view: Any) -> None:
            had_seat = request in seated
            seated.discard(request)
            mode = "swap" if request.host_blocks else "keep" if request.blocks else "recompute"
            for member in self.members:
                if member.on_pause is not None:
                    member.on_pause(request, view)
                elif had_seat and member.on_preempt is not None:
                    member.on_preempt(request, mode, view)

        self.on_pause = on_pause
        for name, note in (("on_admit", come), ("on_preempt", go), ("on_finish", go)):
            setattr(self, name, _one_after_another([*self._hooks(name), note]))

    def _counted(self, admit: Hook) -> Hook:
        """A plan of the policy's own may ask for many, but a part's `steady_steps` speaks of the last that was refused."""
        self.refused = (0, 0)  # in which plan, how many

        def counted(request: Any, view: Any) -> Any:
            answer = admit(request, view)
            if answer != ADMIT:
                plan, many = self.refused
                self.refused = (view.plan_number, many + 1 if plan == view.plan_number else 1)
            return answer

        return counted

    def _unless_many_were_refused(self, view: Any) -> int:
        plan, many = self.refused
        return 0 if many > 1 and plan == view.plan_number else EVER

    @property
    def steady(self) -> bool:  # type: ignore[override]  # asked anew: a policy may change it as it goes
        return all(member.steady for member in self.members)


def combined(main: Policy, parts: Mapping[str, Policy | None], names: Mapping[str, str] | None = None) -> Policy:
    """The main policy with a part for each role given; `names`: as the user wrote them, for messages.

    The same object may be the part of several roles, and the main policy too. Raises `PolicyFileError` for a part that
    lacks its hook.
    """
    names = names or {}
    chosen = {role: parts[role] for role in ROLES if parts.get(role) is not None}
    for role, part in chosen.items():
        if getattr(part, ROLES[role]) is None:
            named = names.get(role, type(part).__name__)
            can = "python -m twin policy list shows which can"
            raise PolicyFileError(
                f"policy.{role}={named}: it has no hook {ROLES[role]}(), so it cannot be this part ({can})"
            )
    if not chosen:
        return main
    title = "+".join(type(member).__name__ for member in dict.fromkeys((main, *chosen.values())))
    return type(title, (Combined,), {"__doc__": main.__doc__})(main, chosen, names)


def members_of(policy: Policy) -> list[tuple[str, Policy]]:
    """The policies that it is made of, the main one first, each with the words for it in a message."""
    if isinstance(policy, Combined):
        return [(policy.labels[member], member) for member in policy.members]
    return [(f"policy {type(policy).__name__}", policy)]


# --- how the hooks of several become one


def _one_after_another(hooks: list[Hook]) -> Hook | None:
    if len(hooks) < 2:
        return hooks[0] if hooks else None

    def tell_all(*arguments: Any) -> None:
        for hook in hooks:
            hook(*arguments)

    return tell_all


def _both(main: Policy, part: Policy) -> Hook | None:
    """The main policy is asked first, and the part only of whom that admits."""
    first, second = main.admit, part.admit
    if part is main or first is None or second is None:
        return first if second is None else second

    def admit(request: Any, view: Any) -> Any:
        answer = first(request, view)
        return second(request, view) if answer == ADMIT else answer

    return admit


def _joined(hooks: list[Hook]) -> Hook | None:
    if len(hooks) < 2:
        return hooks[0] if hooks else None
    return lambda view: [move for hook in hooks for move in hook(view)]


def _least(hooks: list[Hook]) -> Hook | None:
    if len(hooks) < 2:
        return hooks[0] if hooks else None
    return lambda view: min(hook(view) for hook in hooks)
