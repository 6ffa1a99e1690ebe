"""A peer that needs no package: half of the text a call, both at once, and the answer from both replies.

A question that begins with a word of `FAULTS` makes it give out instead, in that way.
"""

from __future__ import annotations

import json
import os
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from benchmarks.peers.job import Job

PACKAGE = "pytest"
FAULTS = ("raise", "die", "babble")


def answer(job: Job) -> str:
    fault = job.question.partition(" ")[0]
    if fault == "raise":
        raise ValueError("two\nlines")
    if fault == "die":
        os._exit(3)
    if fault == "babble":
        print("not JSON", flush=True)
        os._exit(0)
    middle = len(job.text) // 2
    with ThreadPoolExecutor(2) as both:
        parts = list(both.map(lambda part: ask(job, part), (job.text[:middle], job.text[middle:])))
    return ask(job, "\n".join(parts))


def ask(job: Job, text: str) -> str:
    body = {"model": job.model, "messages": [{"role": "user", "content": f"{text}\n{job.question}"}]}
    request = urllib.request.Request(f"{job.url}/chat/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request) as response:
        return str(json.load(response)["choices"][0]["message"]["content"])
