"""Numbers that floats cannot count with are refused when the policy is made, not met in the middle of a run."""

import re

import pytest

from twin.policies_registry import find
from twin.policy_parameters import PolicyFileError

WEIGHTED = ("dlpm", "drr", "lcf", "vtc", "wfq")


@pytest.mark.parametrize("value", [1e308, 1e-320, float("inf"), float("nan"), -1.0])
@pytest.mark.parametrize(
    "policy, name",
    [
        *((policy, name) for policy in WEIGHTED for name in ("prompt_weight", "output_weight")),
        *(("andes", name) for name in ("reading_tokens_per_s", "interval_s", "step_s", "per_request_s")),
        ("slack", "per_token_s"),
    ],
)
def test_a_number_too_large_or_too_small_to_count_with(policy: str, name: str, value: float) -> None:
    with pytest.raises(PolicyFileError, match=f"{name} must be .*1e-.*, not {re.escape(str(value))}"):
        find(policy).build({name: value})


@pytest.mark.parametrize("policy", ["vtc", "wfq"])
@pytest.mark.parametrize("weight", ["1e308", "1e-320", "0", "nan"])
def test_a_users_weight_too_large_or_too_small(policy: str, weight: str) -> None:
    with pytest.raises(PolicyFileError, match="weights 1e-6 to 1e6, not 'alice:"):
        find(policy).build({"weights": f"alice:{weight}"})
