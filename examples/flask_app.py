"""A Flask application that takes orders and acknowledges only what is on disk.

    SPOOL=spool flask --app flask_app run
    SPOOL=spool gunicorn --workers 1 --threads 16 'flask_app:create_app()'

One process writes a spool directory. So run one worker process with many threads: threads share the database, and their
commits share syncs. A second process gets DatabaseLocked and ends. Do not give gunicorn --preload: then the database
would be opened before the fork, and a database is closed in the child of a fork.
"""

import atexit
import os
from pathlib import Path

from flask import Flask, Response, jsonify, request

from oms_journal import CommitFailed, DiskFull, DuplicateConflict, InvalidName, LimitExceeded, MessageDatabase


def create_app(spool: str | Path | None = None) -> Flask:
    app = Flask(__name__)
    db = MessageDatabase.open(spool or os.environ["SPOOL"])
    atexit.register(db.close)
    app.extensions["orders"] = db

    @app.post("/orders")
    def add() -> tuple[Response, int]:
        # The client chooses a key for each order. When it sends the order again, it gets the first number again.
        number = db.add("orders", request.get_data(), producer_id=request.headers.get("Idempotency-Key"))
        return jsonify(number=number), 201

    @app.get("/orders")
    def count() -> Response:
        return jsonify(waiting=db.undelivered_count("orders"))

    @app.errorhandler(DuplicateConflict)
    def other_order(failure: DuplicateConflict) -> tuple[Response, int]:
        return jsonify(error=str(failure)), 409

    @app.errorhandler(LimitExceeded)
    @app.errorhandler(InvalidName)
    def refused(failure: Exception) -> tuple[Response, int]:
        return jsonify(error=str(failure)), 400

    @app.errorhandler(DiskFull)
    @app.errorhandler(CommitFailed)  # the database takes nothing more: restart the process, the client sends again
    def unavailable(failure: Exception) -> tuple[Response, int]:
        return jsonify(error=str(failure)), 503

    return app
