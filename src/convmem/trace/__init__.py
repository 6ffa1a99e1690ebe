"""What happened in a run: the evidence tree as data, as JSON, and as a page to read. Knows no document and no model."""

from convmem.trace.export import encode, from_json, outline, to_html, to_json
from convmem.trace.trace import Node, Status, Trace

__all__ = ["Node", "Status", "Trace", "encode", "from_json", "outline", "to_html", "to_json"]
