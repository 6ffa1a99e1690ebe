"""The official client. Arguments: address, document, question. Prints what it got as JSON."""

import json
import sys
from pathlib import Path

from openai import NotFoundError, OpenAI

address, path, question = sys.argv[1:]
client = OpenAI(base_url=address, api_key="unused", max_retries=0)
messages = [{"role": "user", "content": Path(path).read_text()}, {"role": "user", "content": question}]
models = [model.id for model in client.models.list()]
short = client.chat.completions.create(model=models[0], messages=[{"role": "user", "content": "Hello"}])
whole = client.chat.completions.create(model=f"{models[0]}:lean", messages=messages)
streamed, reasoning, annotations, usage = "", "", [], None
stream = client.chat.completions.create(
    model=models[0], messages=messages, stream=True, stream_options={"include_usage": True}
)
for chunk in stream:
    usage = chunk.usage or usage
    for choice in chunk.choices:
        streamed += choice.delta.content or ""
        reasoning += getattr(choice.delta, "reasoning_content", None) or ""
        annotations += getattr(choice.delta, "annotations", None) or []
with Path(path).open("rb") as book:
    file = client.files.create(file=book, purpose="user_data")
parts = [{"type": "file", "file": {"file_id": file.id}}, {"type": "text", "text": question}]
uploaded = client.chat.completions.create(model=models[0], messages=[{"role": "user", "content": parts}])
listed = [each.id for each in client.files.list()]
deleted = client.files.delete(file.id).deleted
try:
    client.chat.completions.create(model="none", messages=messages)
    error = None
except NotFoundError as refused:
    error = {"message": refused.message, "code": refused.code, "param": refused.param}
print(
    json.dumps(
        {
            "models": models,
            "short": short.choices[0].message.content,
            "whole": whole.choices[0].message.content,
            "cited": [annotation.url_citation.url for annotation in whole.choices[0].message.annotations],
            "tokens": whole.usage.total_tokens,
            "streamed": streamed,
            "reasoning": reasoning,
            "annotations": annotations,
            "stream_usage": usage is not None,
            "uploaded": uploaded.choices[0].message.content,
            "file": [file.id, file.status, client.files.list().data == []],
            "listed": listed,
            "deleted": deleted,
            "error": error,
        }
    )
)
