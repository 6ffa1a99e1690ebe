"""LlamaIndex's OpenAILike. Arguments: address, document, question. Prints what it got as JSON."""

import json
import sys
from pathlib import Path

from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

address, path, question = sys.argv[1:]
model = OpenAILike(model="scripted", api_base=address, api_key="unused", is_chat_model=True, max_retries=0)
messages = [ChatMessage(role="user", content=Path(path).read_text()), ChatMessage(role="user", content=question)]
whole = model.chat(messages)
streamed = "".join(part.delta or "" for part in model.stream_chat(messages))
short = model.chat([ChatMessage(role="user", content="Hello")])
print(json.dumps({"whole": whole.message.content, "streamed": streamed, "short": short.message.content}))
