"""Which predictor a policy gets that cannot do without one, when none was chosen."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twin.cli.compose import Composed
    from twin.policy import Policy

NOTE = "{who} needs predicted output lengths and no predictor was given: predictor=oracle, which knows the true ones"


def none_chosen(config: dict[str, Any], composed: "Composed") -> bool:
    """Nobody said which predictor. `predictor=none` is a choice too."""
    return config["predictor"]["name"] == "none" and not (composed.given("predictor") or composed.given("predictor.name"))


def with_predictor(config: dict[str, Any], policy: "Policy", composed: "Composed") -> tuple[dict[str, Any], list[str]]:
    """The configuration with the oracle where it is needed, and what to say of it."""
    from twin.policy_parts import members_of

    if not none_chosen(config, composed):
        return config, []
    who = next((who for who, member in members_of(policy) if member.needs_prediction), None)
    if who is None:
        return config, []
    return config | {"predictor": config["predictor"] | {"name": "oracle"}}, [NOTE.format(who=who)]
