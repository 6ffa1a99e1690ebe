"""DSPy's RLM: the text is a variable in a Python session, and the model writes the code that reads it.

The code runs in DSPy's default sandbox, Pyodide in Deno. Deno comes from PyPI and Pyodide from npm; the one module that
DSPy's runner loads from another host is replaced by ``rlm_lines.js`` through an import map, so that nothing else is
asked for. DSPy's own limits: 20 iterations, 50 further calls.
"""

from __future__ import annotations

from pathlib import Path

import dspy

from benchmarks.peers.job import Job

PACKAGE = "dspy"
IMPORTS = Path(__file__).with_name("rlm_imports.json")


def interpreter() -> dspy.PythonInterpreter:
    made = dspy.PythonInterpreter()
    run = made.deno_command.index("run")
    made.deno_command.insert(run + 1, f"--import-map={IMPORTS}")
    return made


def answer(job: Job) -> str:
    model = dspy.LM(
        f"openai/{job.model}", api_base=job.url, api_key="none", max_tokens=job.reply_tokens, temperature=0.0,
        cache=False,
    )  # fmt: skip
    with dspy.context(lm=model):
        reader = dspy.RLM("context, question -> answer", interpreter_factory=interpreter)
        return str(reader(context=job.text, question=job.question).answer)
