"""LangChain's map-reduce question answering: relevant text of each chunk, collapsed until it fits one answering prompt.

Its own prompts; chunks without overlap, made by its recursive splitter.
"""

from __future__ import annotations

import asyncio
import warnings

from langchain_classic.chains.question_answering import load_qa_chain
from langchain_core._api import LangChainDeprecationWarning
from langchain_core.documents import Document
from langchain_openai import ChatOpenAI
from langchain_text_splitters import RecursiveCharacterTextSplitter

from benchmarks.peers.job import Job

PACKAGE = "langchain-classic"
PROMPT_TOKENS = 200
"""What instructions and question take in a prompt, which the chain does not count."""


def answer(job: Job) -> str:
    warnings.simplefilter("ignore", LangChainDeprecationWarning)  # the chain is in wide use and has no successor
    model = ChatOpenAI(
        model=job.model, base_url=job.url, api_key="none", max_tokens=job.reply_tokens, temperature=0.0, timeout=None,
        max_retries=3, custom_get_token_ids=lambda text: list(range(job.tokens(text))),
    )  # fmt: skip
    room = job.window - job.reply_tokens - PROMPT_TOKENS
    splitter = RecursiveCharacterTextSplitter(chunk_size=room, chunk_overlap=0, length_function=job.tokens)
    chunks = [Document(page_content=chunk) for chunk in splitter.split_text(job.text)]
    chain = load_qa_chain(model, chain_type="map_reduce", token_max=room)
    done = asyncio.run(chain.ainvoke({"input_documents": chunks, "question": job.question}))
    return str(done["output_text"])
