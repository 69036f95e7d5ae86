"""A small good file of each format, made by hand after what is published of it: bytes by format."""

import gzip
import io
import json


def _jsonl(*rows: object) -> bytes:
    return "\n".join(map(json.dumps, rows)).encode()


def _parquet() -> bytes:
    import pyarrow
    import pyarrow.parquet as parquet

    columns = {
        "arrival_s": [0.0, 1.5, 2.0],
        "prompt_tokens": [40, 16, 33],
        "output_tokens": [5, 6, 7],
        "session": ["a", "b", "a"],
        "prefix_hashes": [[1, 2, 3], [1], []],
        "hash_block_tokens": [16, 16, 16],
    }
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


TALK = [{"from": "human", "value": "a question of some length"}, {"from": "gpt", "value": "an answer"}] * 2
TOOLS = [{"input_toks": 9, "output_toks": 3, "tool_duration_ns": 10**9}, {"input_toks": 12, "output_toks": 3}]
TURNS = [
    {"t": 0.0, "type": "n", "in": 130, "out": 5, "hash_ids": [1, 2]},
    {"t": 9.0, "type": "n", "in": 200, "out": 5, "think_time": 2.5, "hash_runs": [[1, 3]]},
    {"t": 12.0, "type": "subagent", "agent_id": "x", "requests": [{"t": 0, "in": 70, "out": 4, "hash_ids": [7]}]},
]
SAMPLES: dict[str, bytes] = {
    "azure": b"TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n"
    b"2023-11-16 18:15:50.9951690,396,109\r\n2024-05-10 00:00:00+00:00,879,55",
    "burstgpt": b"Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    b"5,a,1.5,ChatGPT,472,18,490,Conversation log\n45,a,2,GPT-4,1087,0,1087,API log\n46,b,,GPT-4,7,8,15,API log\n",
    "bailian": _jsonl(
        {"chat_id": 1, "parent_chat_id": -1, "timestamp": 0.5, "input_length": 40, "output_length": 9, "type": "text",
         "turn": 1, "hash_ids": [1, 2, 3]},
        {"chat_id": 2, "parent_chat_id": 1, "timestamp": 3.5, "input_length": 50, "output_length": 9, "type": "text",
         "turn": 2, "hash_ids": [1, 2, 4, 5]},
    ),
    "mooncake": _jsonl(
        {"timestamp": 0, "input_length": 600, "output_length": 9, "hash_ids": [0, 1]},
        {"timestamp": 3000, "input_length": 512, "output_length": 9, "hash_ids": [0]},
    ),
    "agents": _jsonl(
        {"id": "s", "block_size": 64, "hash_id_scope": "local", "requests": TURNS},
        {"id": "t", "block_size": 64, "hash_id_scope": "local", "requests": TURNS[:2]},
    ),
    "llmservingsim": _jsonl(
        {"input_toks": 3, "output_toks": 2, "arrival_time_ns": 0, "input_tok_ids": [5, 6, 7]},
        {"session_id": "s", "arrival_time_ns": 4059740, "sub_requests": TOOLS},
    ),
    "sharegpt": json.dumps([{"id": "x", "conversations": TALK}, {"id": "y", "conversations": TALK[:2]}], indent=1).encode(),
    "vllm": _jsonl(
        {"date": "20260101", "completed": 2, "total_input_tokens": 30, "input_lens": [10, 20], "output_lens": [3, 4],
         "start_times": [1.5, 2.5], "errors": ["", ""]},
    ),
    "vtc": _jsonl(
        {"config": {"req_rate": 3.5}, "result": {"responses": [
            {"adapter_dir": "a-1", "prompt_len": 13, "output_len": 19, "req_time": 0.0},
            {"adapter_dir": "a-2", "prompt_len": 36, "output_len": 13, "req_time": 0.2}]}},
    ),
    "openai_batch": _jsonl(
        {"custom_id": "r-1", "method": "POST", "url": "/v1/chat/completions", "body": {
            "model": "m", "messages": [{"role": "user", "content": "a question"}], "max_tokens": 9, "n": 2}},
        {"custom_id": "r-2", "body": {"prompt": "a prompt", "max_tokens": 7}},
    ),
    "vllm_dataset": _jsonl({"prompt": "a prompt", "output_tokens": 5}, {"prompt": [1, 2, 3], "output_tokens": 6}),
    "csv": b"arrival_s,prompt_tokens,output_tokens,request_id,deadline_s\n0,5,6,a,9\n1.5,7,8,\"b\n\",10\n2,3,4,c,\n",
    "jsonl": _jsonl(
        {"arrival_s": 0, "prompt_tokens": 40, "output_tokens": 6, "prefix_hashes": [1, "x"], "hash_block_tokens": 16},
        {"arrival_s": 1, "prompt_tokens": 40, "output_tokens": 6, "session": "s", "turn": 1, "max_tokens": 8},
    ),
    "parquet": _parquet(),
}  # fmt: skip
PACKED = gzip.compress(SAMPLES["burstgpt"], mtime=0)
