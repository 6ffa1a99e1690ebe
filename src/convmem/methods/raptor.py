"""RAPTOR: a tree of summaries that knows no question, retrieved from as one collection (METHODS section 9).

Leaves of about 100 tokens are embedded and softly clustered; each cluster is summarized; the summaries are embedded and
clustered in their turn, until few are left. The nodes nearest to the question, from whatever layer, make the answer::

    layer_0 = leaves
    while |layer_l| is large:  layer_{l+1} = [model(cluster) for cluster in soft_clusters(embed(layer_l))]
    answer = model(Q, the nodes of all layers by cosine(embed(node), embed(Q)), up to 2,000 tokens)

The calls that build the tree are the same for every question, so a second one finds them all stored.

What differs from the paper: vectors are TF-IDF weights hashed into 1,024 dimensions instead of a trained encoder's
(`Raptor.embedder` can be another); mixtures are fitted in their principal components instead of UMAP's; and the number
of clusters follows from their mean size instead of the Bayesian information criterion.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from convmem import prompts
from convmem.core import (
    Answer,
    CallFailed,
    ContextExceeded,
    Evidence,
    EvidenceFound,
    LayerPlan,
    LayerStarted,
    Malformed,
    Plan,
    ReplySlice,
    Stopped,
    in_thread,
    union,
)
from convmem.document import Document, boundary_windows
from convmem.memory.aggregation import NUMBER_TOKENS, answer_from, numbered
from convmem.memory.clustering import Vectors, soft_clusters
from convmem.memory.convolution import Note
from convmem.memory.decomposition import SubQuestion
from convmem.memory.embedding import Embedder, HashingEmbedder
from convmem.memory.passages import read_in
from convmem.methods.base import Facts, Method, MethodConfig
from convmem.methods.estimate import PROMPT_TOKENS, QUESTION, plan_of_calls
from convmem.run import Ask, Run

MEMBERSHIPS = 1.3
"""Clusters that estimates take a node to be in."""


class Config(MethodConfig):
    """Settings of RAPTOR."""

    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": {}, "lean": {"temperature": 0.0, "top_p": 1.0}}

    leaf_tokens: int = Field(100, ge=1)
    """The most tokens of a leaf, which ends with a sentence where one does."""
    cluster_size: int = Field(7, ge=2)
    """How many nodes a cluster has on average (6.7 in the paper's trees)."""
    threshold: float = Field(0.1, gt=0, le=1)
    """Probability from which a node belongs to a cluster (soft clustering)."""
    cluster_tokens: int = Field(3_500, ge=1)
    """The most text that one summary is made from, in tokens; a longer cluster is parted. Less in a small context."""
    summary_tokens: int = Field(200, ge=1)
    """The longest summary, in tokens."""
    max_layers: int = Field(5, ge=0)
    """The most layers of summaries."""
    retrieved_tokens: int = Field(2_000, ge=1)
    """The most text that the answer is made from, in tokens (collapsed tree)."""
    answer_tokens: int = Field(300, ge=1)
    """The longest answer, in tokens."""


class Raptor(Method[Config]):
    """Builds a tree of summaries, then answers from the nodes that match the question."""

    name = "raptor"
    summary = "a tree of summaries of similar passages, the same for every question; its nearest nodes in one call"
    Config = Config

    def embedder(self, leaves: Sequence[str]) -> Embedder:
        """What embeds the nodes of a document that has these leaves, and the question."""
        return HashingEmbedder(leaves)

    async def solve(self, document: Document, question: str, run: Run) -> Answer:
        await self._set_aside(question, run)
        windows = await in_thread(boundary_windows, document, run.tokenizer, self.config.leaf_tokens)
        leaves = [
            Note(Evidence(document.text(w.span), (w.span,), "raw", piece=w.span), w.tokens[1] - w.tokens[0], ())
            for w in windows
        ]
        embedder = await asyncio.to_thread(self.embedder, _texts(leaves))
        tree, vectors = await self._grow(leaves, embedder, run)
        asked = await asyncio.to_thread(embedder.embed, [question])
        near = self._first([tree[number] for number in np.argsort(-(vectors @ asked[0]), kind="stable")])
        for note in near:
            run.emit(EvidenceFound(note.evidence))
        waited = SubQuestion("", question, node=max((node for note in tree for node in note.nodes), default=None))
        final = await answer_from(near, [], waited, run, role="direct", reply_tokens=self.config.answer_tokens)
        if final.node is not None:
            read_in(final.node, run)
        return self.conclude(run, self.config, final, windows=len(leaves))

    async def _grow(self, leaves: list[Note], embedder: Embedder, run: Run) -> tuple[list[Note], Vectors]:
        """All nodes of the tree, leaves first, and their vectors. Where the run may read no more, what there is."""
        layer, vectors = leaves, await asyncio.to_thread(embedder.embed, _texts(leaves))
        tree, all_vectors = list(layer), [vectors]
        ended: Stopped | None = None
        for number in range(self.config.max_layers):
            if len(layer) <= self.config.cluster_size or ended:
                break
            size, threshold = self.config.cluster_size, self.config.threshold
            clusters = await asyncio.to_thread(soft_clusters, vectors, size, threshold)
            parts = [part for members in clusters for part in self._parted([layer[i] for i in members], run)]
            run.emit(LayerStarted(number, len(parts)))
            async with asyncio.TaskGroup() as tasks:
                calls = [tasks.create_task(self._summarize(part, (number, i), run)) for i, part in enumerate(parts)]
            made = [call.result() for call in calls]
            ended = next((each for each in made if isinstance(each, Stopped)), None)
            layer = [each for each in made if isinstance(each, Note)]
            vectors = await asyncio.to_thread(embedder.embed, _texts(layer))
            tree += layer
            all_vectors.append(vectors)
        if ended:
            run.warn(f"The tree is not whole, and what it lacks is looked for in its leaves: {ended}")
        return tree, np.concatenate(all_vectors)

    def _parted(self, cluster: list[Note], run: Run) -> list[list[Note]]:
        """A cluster in halves until each has no more text than one call reads."""
        room = run.room(self.config.summary_tokens, "summarize_cluster") - PROMPT_TOKENS
        tokens = sum(note.tokens + NUMBER_TOKENS for note in cluster)
        if tokens <= min(room, self.config.cluster_tokens) or len(cluster) == 1:
            return [cluster]
        middle = len(cluster) // 2
        return [part for half in (cluster[:middle], cluster[middle:]) for part in self._parted(half, run)]

    async def _summarize(self, cluster: Sequence[Note], place: tuple[int, int], run: Run) -> Note | Stopped | None:
        """One summary, from all spans of its cluster; None where it can't be had, and why where it may not."""
        evidence = [note.evidence for note in cluster]
        ask = Ask(
            template=prompts.load("summarize_cluster"),
            variables={"passages": numbered(evidence), "words": str(max(1, self.config.summary_tokens * 3 // 4))},
            parse=_summary,
            max_tokens=self.config.summary_tokens,
            layer=place[0],
            parents=tuple(dict.fromkeys(node for note in cluster for node in note.nodes)),
            priority=place,
        )
        spans = union(span for item in evidence for span in item.spans)
        try:
            reply = await run.call(ask)
        except (CallFailed, ContextExceeded) as failure:
            for span in spans:
                run.failed(span, ask.role, "", str(failure))
            return None
        except Stopped as stopped:
            return stopped
        read_in(reply.node, run)
        if reply.value is None:
            return None
        text = reply.text
        return Note(
            Evidence(text, spans, "paraphrase", piece=ReplySlice(reply.node, 0, len(text))),
            await run.count(text),
            (reply.node,),
        )

    def _first(self, nodes: Sequence[Note]) -> list[Note]:
        """The first nodes, as many as ``retrieved_tokens`` hold with their numbers; one that never fits is left out."""
        kept: list[Note] = []
        room = self.config.retrieved_tokens
        for note in nodes:
            if (needed := note.tokens + NUMBER_TOKENS) <= room:
                kept.append(note)
                room -= needed
            elif kept:
                break
        return kept

    async def _set_aside(self, question: str, run: Run) -> None:
        """Keep what answering may cost."""
        prompt = PROMPT_TOKENS + await run.count(question) + self.config.retrieved_tokens
        run.set_aside(run.reserve(prompt, "direct") + self.config.answer_tokens)

    def plan(self, document: Document, facts: Facts, question: str = "") -> Plan:
        config, count = self.config, facts.tokenizer.count
        windows = boundary_windows(document, facts.tokenizer, config.leaf_tokens)
        template, direct = prompts.load("summarize_cluster"), prompts.load("direct")
        frame = count(template.system + template.user)
        tokens = sum(last - first for first, last in (window.tokens for window in windows))
        nodes, text = len(windows), tokens
        layers: list[LayerPlan] = []
        while nodes > config.cluster_size and len(layers) < config.max_layers:
            calls = math.ceil(nodes / config.cluster_size)
            layers.append(LayerPlan(calls, round(MEMBERSHIPS * (text + nodes * NUMBER_TOKENS)) + calls * frame))
            nodes, text = calls, calls * config.summary_tokens
        asked = count(direct.system + direct.user + (question or QUESTION))
        return plan_of_calls(
            document, facts, layers, windows=len(windows), answering=asked + min(config.retrieved_tokens, tokens),
            replies=sum(layer.calls for layer in layers) * config.summary_tokens, depth=len(layers) + 1,
            assumptions=[f"A passage is taken to be in {MEMBERSHIPS} clusters."],
        )  # fmt: skip


def _texts(notes: Sequence[Note]) -> list[str]:
    return [note.evidence.text for note in notes]


def _summary(reply: str) -> str:
    if not reply.strip():
        raise Malformed("the reply is empty")
    return reply
