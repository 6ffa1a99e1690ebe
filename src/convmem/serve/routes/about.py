"""The server itself: whether it lives and is ready, its metrics, the web page, the description of its paths."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse, JSONResponse, Response

from convmem.serve.services import Parts, Who

router = APIRouter(tags=["server"])

PAGE = Path(str(resources.files("convmem.serve") / "page"))


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Whether the process lives."""
    return {"status": "ok"}


@router.get("/readyz", responses={503: {}})
async def readyz(parts: Parts) -> Response:
    """Whether a question can be asked: a model is there, and the server is not about to stop."""
    ready = bool(await parts.upstreams.names()) and not parts.jobs.stopping
    return JSONResponse({"status": "ready" if ready else "not ready"}, 200 if ready else 503)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(parts: Parts, who: Who) -> Response:
    """Metrics for Prometheus. They name no tenant, document or question."""
    return Response(parts.metrics.text(), media_type="text/plain; version=0.0.4")


@router.get("/", include_in_schema=False)
async def page() -> Response:
    """The web page."""
    return FileResponse(PAGE / "index.html", headers={"cache-control": "no-cache"})


@router.get("/docs", include_in_schema=False)
async def description() -> Response:
    """The paths of this server, for people."""
    return FileResponse(PAGE / "docs.html", headers={"cache-control": "no-cache"})
