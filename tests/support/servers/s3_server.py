"""An S3 server that runs in the process of the tests: a fixture for the modules that import it."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    """Return the options for an S3 server that runs in this test."""
    server_of = pytest.importorskip("moto.server", reason="no S3 server to test with: pip install --group test")
    pytest.importorskip("s3fs", reason="nothing reads S3: pip install -e '.[s3]'")
    server = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield {
        "storage.key": "a",
        "storage.secret": "b",
        "storage.endpoint_url": f"http://{host}:{port}",
        "storage.client_kwargs": '{"verify": false}',
    }
    server.stop()
