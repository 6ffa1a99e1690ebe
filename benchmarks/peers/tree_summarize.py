"""LlamaIndex's TreeSummarize: chunks that fill the window are answered, and the answers again, until one is left.

Its own prompts and its default overlap of chunks (a tenth).
"""

from __future__ import annotations

import asyncio

from llama_index.core import PromptHelper
from llama_index.core.response_synthesizers import TreeSummarize
from llama_index.llms.openai_like import OpenAILike

from benchmarks.peers.job import Job

PACKAGE = "llama-index-core"
PATIENCE = 3_600.0
"""Seconds that a reply may take."""


def answer(job: Job) -> str:
    model = OpenAILike(
        model=job.model, api_base=job.url, api_key="none", is_chat_model=True, context_window=job.window,
        max_tokens=job.reply_tokens, temperature=0.0, timeout=PATIENCE, max_retries=3,
    )  # fmt: skip
    helper = PromptHelper.from_llm_metadata(model.metadata, tokenizer=lambda text: range(job.tokens(text)))
    return str(asyncio.run(TreeSummarize(llm=model, prompt_helper=helper).aget_response(job.question, [job.text])))
