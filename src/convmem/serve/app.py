"""The application: routes behind the guard, over the server's parts. Knows nothing of sockets and signals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.staticfiles import StaticFiles

import convmem
from convmem.core import ConvMemError
from convmem.serve.errors import ErrorBody, Refusal, refusal
from convmem.serve.guard import Guard
from convmem.serve.routes import about, chat, documents, files, runs
from convmem.serve.services import Services

_ABOUT = """\
Questions over documents that are longer than a model's context, with answers that can be checked.

Where the server has keys, every request needs one, as `Authorization: Bearer KEY`. Every error has the form that
OpenAI's clients read.
"""


def create_app(services: Services, *, local: bool) -> FastAPI:
    """The application over ``services``, which it closes when it ends. ``local``: it is reached from here alone."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        services.begin()
        try:
            yield
        finally:
            await services.close()

    app = FastAPI(
        title="ConvMem",
        version=convmem.__version__,
        description=_ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        responses={"4XX": {"model": ErrorBody}, "5XX": {"model": ErrorBody}},
    )
    app.state.services = services
    for routes in (chat, files, documents, runs, about):
        app.include_router(routes.router)
    app.mount("/page", StaticFiles(directory=about.PAGE))
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(ConvMemError, _refused)
    app.add_exception_handler(RequestValidationError, _refused)
    app.add_middleware(
        Guard,
        keys=services.keys, accounts=services.accounts, limits=services.limits, metrics=services.metrics, local=local,
    )  # fmt: skip
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    return app


async def _refused(_: Request, error: Exception) -> JSONResponse:
    """Whatever went wrong, in OpenAI's form."""
    match error:
        case Refusal():
            refused = error
        case ConvMemError():
            refused = refusal(error)
        case RequestValidationError():
            first = error.errors()[0]
            said = first["msg"].removeprefix("Value error, ")
            where = ".".join(str(part) for part in first["loc"] if part != "body")
            refused = Refusal(400, f"{where}: {said}." if where else f"{said}.", param=where or None)
        case HTTPException() if isinstance(error.__cause__, OSError):
            said = f"The upload can't be kept ({error.__cause__.strerror}): the server's disk may be full."
            refused = Refusal(503, said, retry_after=60)
        case HTTPException():
            refused = Refusal(error.status_code, f"{error.detail}.")
        case _:
            raise error
    return JSONResponse(refused.body, refused.status_code, refused.headers)


def _described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description, with the key that requests may need."""
    if app.openapi_schema is None:
        described = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        described.setdefault("components", {})["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        described["security"] = [{"key": []}, {}]
        app.openapi_schema = described
    return app.openapi_schema
