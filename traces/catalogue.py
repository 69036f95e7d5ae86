"""Public traces that `twin traces fetch` downloads: where their owners publish them, under which licence.

Sizes and SHA-256 are those of the published files as of 2025 (of files in Git LFS, what their pointers say); where
None stands, none is published and only the length that the server names can be checked.
"""

from __future__ import annotations

from dataclasses import dataclass

AZURE = "https://raw.githubusercontent.com/Azure/AzurePublicDataset/master/data/"
AZURE_WEEK = "https://azurepublicdatasettraces.blob.core.windows.net/azurellminfererencetrace/"
BURSTGPT = "https://github.com/HPMLL/BurstGPT/raw/main/data/"
MOONCAKE = "https://raw.githubusercontent.com/kvcache-ai/Mooncake/main/FAST25-release/traces/"
QWEN = "https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon/raw/main/"
SHAREGPT = "https://huggingface.co/datasets/anon8231489123/ShareGPT_Vicuna_unfiltered/resolve/main/"

SPLITWISE = "Patel et al., Splitwise, ISCA 2024"
DYNAMOLLM = "Stojkovic et al., DynamoLLM, HPCA 2025"
BURSTGPT_PAPER = "Wang et al., BurstGPT, KDD 2025"
MOONCAKE_PAPER = "Qin et al., Mooncake, FAST 2025"
QWEN_PAPER = "Wang et al., KVCache cache in the wild, ATC 2025"


@dataclass(frozen=True)
class PublicTrace:
    """One file: its address, its licence, whom to cite; `size` in bytes and `sha256` in hex where they are known."""

    name: str
    about: str
    url: str
    licence: str
    cite: str
    size: int | None = None
    sha256: str | None = None

    @property
    def file(self) -> str:
        """The file's own name, under which it is kept."""
        return self.url.rpartition("/")[2]


PUBLIC = {
    trace.name: trace
    for trace in (
        PublicTrace(
            "azure2023_conv",
            "Azure LLM inference 2023, conversation: 19,366 requests of one hour",
            f"{AZURE}AzureLLMInferenceTrace_conv.csv",
            "CC-BY-4.0",
            SPLITWISE,
            719_188,
            "2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8",
        ),
        PublicTrace(
            "azure2023_code",
            "Azure LLM inference 2023, code completion: 8,819 requests of one hour",
            f"{AZURE}AzureLLMInferenceTrace_code.csv",
            "CC-BY-4.0",
            SPLITWISE,
            320_117,
            "54e9a6d2a4bd06ba1e060304b900abbc74cbea53de96506e60fe5bb4f2277fb6",
        ),
        PublicTrace(
            "azure2024_conv",
            "Azure LLM inference 2024, conversation: one week",
            f"{AZURE_WEEK}AzureLLMInferenceTrace_conv_1week.csv",
            "CC-BY-4.0",
            DYNAMOLLM,
        ),
        PublicTrace(
            "azure2024_code",
            "Azure LLM inference 2024, code completion: one week",
            f"{AZURE_WEEK}AzureLLMInferenceTrace_code_1week.csv",
            "CC-BY-4.0",
            DYNAMOLLM,
        ),
        PublicTrace(
            "azure2025_multimodal",
            "Azure multimodal inference 2025: requests with images, one week",
            f"{AZURE}AzureLMMInferenceTrace_multimodal.csv.gz",
            "CC-BY-4.0",
            "Qiu et al., ModServe, SoCC 2025",
        ),
        PublicTrace(
            "burstgpt_1",
            "BurstGPT, first two months: ChatGPT and GPT-4 of one campus, failed requests included",
            f"{BURSTGPT}BurstGPT_1.csv",
            "CC-BY-4.0",
            BURSTGPT_PAPER,
            52_283_111,
            "4bb3783693d0a435686fbfc885615d2349bd067239079fa4b749f2e679e12122",
        ),
        PublicTrace(
            "burstgpt_2",
            "BurstGPT, the second two months",
            f"{BURSTGPT}BurstGPT_2.csv",
            "CC-BY-4.0",
            BURSTGPT_PAPER,
            144_819_209,
            "44bf5942b03fca42c01a226a545ad3a750ec62688faecd67b6831c56a8928bf7",
        ),
        PublicTrace(
            "mooncake_conversation",
            "Mooncake, conversation: one hour with prefix hashes of 512-token blocks",
            f"{MOONCAKE}conversation_trace.jsonl",
            "Apache-2.0",
            MOONCAKE_PAPER,
            3_029_533,
            "b8cbb061a85206d729d91cdc2981f43c9e0d99209dce588d3af5f7934408b9df",
        ),
        PublicTrace(
            "mooncake_toolagent",
            "Mooncake, tools and agents: 23,608 requests with prefix hashes",
            f"{MOONCAKE}toolagent_trace.jsonl",
            "Apache-2.0",
            MOONCAKE_PAPER,
        ),
        PublicTrace(
            "mooncake_synthetic",
            "Mooncake, synthetic: public long-context sets with Poisson arrivals",
            f"{MOONCAKE}synthetic_trace.jsonl",
            "Apache-2.0",
            MOONCAKE_PAPER,
        ),
        PublicTrace(
            "qwen_chat",
            "Qwen on Bailian, trace A: two hours of a chat service, prefix hashes of 16-token blocks",
            f"{QWEN}qwen_traceA_blksz_16.jsonl",
            "Apache-2.0",
            QWEN_PAPER,
        ),
        PublicTrace(
            "qwen_api",
            "Qwen on Bailian, trace B: two hours of API calls",
            f"{QWEN}qwen_traceB_blksz_16.jsonl",
            "Apache-2.0",
            QWEN_PAPER,
        ),
        PublicTrace(
            "qwen_coder",
            "Qwen on Bailian: coding",
            f"{QWEN}qwen_coder_blksz_16.jsonl",
            "Apache-2.0",
            QWEN_PAPER,
            132_054_902,
            "3d74974cebb7bccb69b1ca6ea210a44d9a3033443c0271ed015327284dea1aff",
        ),
        PublicTrace(
            "qwen_thinking",
            "Qwen on Bailian: reasoning",
            f"{QWEN}qwen_thinking_blksz_16.jsonl",
            "Apache-2.0",
            QWEN_PAPER,
            27_901_454,
            "41ac36d9d1b54d084eeb6b05e9d142ba9d02f8bf79cfc9fff418d8ab7cdee906",
        ),
        PublicTrace(
            "sharegpt",
            "ShareGPT conversations as text, the file that vLLM's benchmarks use; no arrival times",
            f"{SHAREGPT}ShareGPT_V3_unfiltered_cleaned_split.json",
            "Apache-2.0 (the repository's; the texts are their users')",
            "no paper",
            None,
            "35f0e213ce091ed9b9af2a1f0755e9d39f9ccec34ab281cd4ca60d70f6479ba4",
        ),
    )
}
