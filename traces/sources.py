"""What was measured on the traces that the generators are fitted to: figures, none of their rows.

`twin traces show NAME` prints them beside the generator's.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A fitted trace: its figures under the names of `traces.statistics.statistics`, and quantiles of its lengths."""

    title: str
    credit: str  # licence and whom to cite
    figures: dict[str, float]
    levels: tuple[float, ...]
    prompt_tokens: tuple[float, ...]
    output_tokens: tuple[float, ...]


# fmt: off
LEVELS = (
    0, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75,
    0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1,
)
SOURCES = {
    "chat": Source(
        title="Azure LLM inference trace 2023, conversation",
        credit="CC-BY-4.0; Patel et al., Splitwise, ISCA 2024",
        figures={
            "requests": 19366, "rate": 5.53014, "gap_cv": 1.09417, "fano_10s": 3.857, "fano_60s": 16.12826,
            "acf_60s": 0.81002, "spearman": 0.07275, "prompt_mean": 1154.69741, "output_mean": 211.12594,
        },
        levels=LEVELS,
        prompt_tokens=(
            2, 8, 16.8, 29, 91, 181, 207, 372, 387, 396, 403, 414, 703, 984, 1020, 1045, 1071, 1097, 1130, 1189, 1315,
            1876.2, 2734.5, 4083, 4098, 4142, 4831, 6179.1, 14050,
        ),
        output_tokens=(
            7, 12, 14, 16, 24, 41, 54, 67, 77, 85, 91, 96, 103, 113, 129, 151, 177, 217, 384, 395, 400, 411, 424, 451,
            540, 601, 643.2, 954, 1000,
        ),
    ),
    "code": Source(
        title="Azure LLM inference trace 2023, code",
        credit="CC-BY-4.0; Patel et al., Splitwise, ISCA 2024",
        figures={
            "requests": 8819, "rate": 2.5664, "gap_cv": 13.15129, "fano_10s": 71.64147, "fano_60s": 163.96469,
            "acf_60s": 0.16356, "spearman": -0.02146, "prompt_mean": 2047.84828, "output_mean": 27.88253,
        },
        levels=LEVELS,
        prompt_tokens=(
            3, 7, 12, 17, 35, 75, 147, 232, 385.6, 578, 770, 938.6, 1075, 1261.1, 1469, 1690, 1909, 2163.7, 2433,
            2744.5, 3192.4, 3920.2, 5187.6, 7303.3, 7436, 7436, 7436, 7437, 7437,
        ),
        output_tokens=(
            6, 6, 6, 6, 6, 6, 7, 7, 8, 9, 9, 10, 11, 12, 13, 14, 16, 18, 20, 24, 29, 39, 55, 90, 170.9, 251.5, 359.4,
            825.3, 1899,
        ),
    ),
    "agent": Source(
        title="kv-cache-tester, 692 coding sessions with an agent",
        credit="Apache-2.0; github.com/callanjfox/kv-cache-tester",
        figures={
            "requests": 45542, "spearman": 0.07952, "prompt_mean": 119379.82282, "output_mean": 439.06344,
            "session_hit_rate": 0.9631,
        },
        levels=(0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1),
        prompt_tokens=(
            17666.5, 31247.2, 42777.2, 66050.2, 101495, 135414, 210539.4, 308836.2, 507924.4, 807094, 894371,
        ),
        output_tokens=(
            57, 88, 104, 138, 217, 429, 894, 1527.9, 3678.4, 8175.4, 18195,
        ),
    ),
    "summarize": Source(
        title="arXiv summarization, as in Vidur",
        credit="MIT; Agrawal et al., Vidur, MLSys 2024; lengths only",
        figures={
            "requests": 28257, "spearman": -0.11378, "prompt_mean": 2588.07803, "output_mean": 291.43037,
        },
        levels=LEVELS,
        prompt_tokens=(
            1, 1, 31, 73, 229, 748.6, 1242, 1564, 1802, 1986, 2150, 2308, 2453, 2596, 2730, 2861, 2996, 3127, 3249,
            3370, 3490, 3597, 3702, 3813, 3892, 3933.4, 3963, 4011.7, 4054,
        ),
        output_tokens=(
            5, 18.3, 29.3, 36, 44, 60, 78, 92, 104, 115, 125, 135, 145, 156, 167, 179, 192, 206, 222, 242, 268, 304,
            372, 736.2, 2775, 3271.3, 3582.4, 3844.5, 4056,
        ),
    ),
    "long_context": Source(
        title="Mooncake, synthetic: public long-context sets",
        credit="Apache-2.0; Qin et al., Mooncake, FAST 2025",
        figures={
            "requests": 3993, "rate": 3.90597, "gap_cv": 1.01131, "fano_10s": 1.17776, "fano_60s": 1.19163,
            "acf_60s": 0.05612, "spearman": -0.51663, "prompt_mean": 15325.47658, "output_mean": 149.11896,
        },
        levels=LEVELS,
        prompt_tokens=(
            13, 13, 13, 16, 18, 22, 30, 45, 88, 277, 912.6, 2777, 4364.8, 6657, 11587, 14724.4, 16290.2, 17642,
            19408.6, 23175, 28425.2, 34319.2, 38611.2, 48904.6, 56631, 66456.2, 76328, 191373, 191378,
        ),
        output_tokens=(
            1, 2, 2, 2, 2, 2, 4, 6, 8, 11, 16, 22, 32, 49, 69, 92, 126, 169, 210.4, 250, 288.6, 332.2, 389, 519,
            688.8, 768.1, 782, 813.1, 893,
        ),
    ),
}
# fmt: on
