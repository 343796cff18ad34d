"""A FastAPI application that takes orders and acknowledges only what is on disk.

    SPOOL=spool uvicorn --factory fastapi_app:create_app

One process writes a spool directory. So run uvicorn without --workers: one event loop serves all requests, and requests
that are under way together share syncs. A second process gets DatabaseLocked and ends.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from oms_journal import (
    AsyncMessageDatabase,
    CommitFailed,
    DiskFull,
    DuplicateConflict,
    InvalidName,
    JournalError,
    LimitExceeded,
)

STATUS: dict[type[JournalError], int] = {
    DuplicateConflict: 409,
    LimitExceeded: 400,
    InvalidName: 400,
    DiskFull: 503,
    CommitFailed: 503,  # the database takes nothing more: restart the process, the client sends again
}


def create_app(spool: str | Path | None = None) -> FastAPI:
    directory = spool or os.environ["SPOOL"]

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncMessageDatabase.open(directory) as db:  # in the process that serves, and in its event loop
            app.state.db = db
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders", status_code=201)
    async def add(request: Request) -> dict[str, int]:
        # The client chooses a key for each order. When it sends the order again, it gets the first number again.
        db: AsyncMessageDatabase = request.app.state.db
        key = request.headers.get("Idempotency-Key")
        return {"number": await db.add("orders", await request.body(), producer_id=key)}

    @app.get("/orders")
    async def count(request: Request) -> dict[str, int]:
        db: AsyncMessageDatabase = request.app.state.db
        return {"waiting": db.undelivered_count("orders")}

    @app.exception_handler(JournalError)
    async def refused(request: Request, failure: Exception) -> JSONResponse:
        status = next((code for kind, code in STATUS.items() if isinstance(failure, kind)), 500)
        return JSONResponse({"error": str(failure)}, status)

    return app
