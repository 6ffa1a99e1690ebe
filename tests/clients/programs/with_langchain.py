"""LangChain's ChatOpenAI. Arguments: address, document, question. Prints what it got as JSON."""

import json
import sys
from pathlib import Path

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI

address, path, question = sys.argv[1:]
chat = ChatOpenAI(base_url=address, api_key="unused", model="scripted", max_retries=0, stream_usage=True)
messages = [SystemMessage("You answer from this:\n\n" + Path(path).read_text()), HumanMessage(question)]
whole = chat.invoke(messages)
streamed = "".join(chunk.text for chunk in chat.stream(messages))
short = chat.invoke("Hello")
print(
    json.dumps(
        {
            "whole": whole.text,
            "streamed": streamed,
            "short": short.text,
            "tokens": whole.usage_metadata["total_tokens"],
        }
    )
)
