"""ConvMem over HTTP: an OpenAI-compatible endpoint, documents and runs, a web page. Knows how to ask, and no method."""
