"""A network of its own for what is run: its loopback, and nothing else. Nobody's ports are in the way, nobody is met.

It takes Linux, `unshare`, `setpriv`, `ip`, and either root or user namespaces. All processes in it end when the first
one ends, or when who has started it does, however that ends.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

_SILENT = "192.0.2.0/24"  # addresses of documents: some tests wait for one that does not answer
_MULTICAST = "224.0.0.0/4"
_NETWORK = f'ip link set lo up && ip route add {_SILENT} dev lo && ip route add {_MULTICAST} dev lo && exec "$@"'
_TRY_SECONDS = 20


def command(inside: Sequence[str]) -> list[str]:
    """Return the command that runs another one in a network of its own."""
    rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    dying = ["setpriv", "--pdeathsig", "KILL", "unshare", "--kill-child"]
    return [*dying, *rights, "--net", "--pid", "--fork", "sh", "-c", _NETWORK, "sh", *inside]


def missing() -> str:
    """Say what this machine has not, and what to do; "" for nothing."""
    if sys.platform != "linux":
        return "the suites run in a network namespace, which only Linux has"
    for program, package in (("unshare", "util-linux"), ("setpriv", "util-linux"), ("ip", "iproute2")):
        if shutil.which(program) is None:
            return f"{program} is missing: apt-get install {package}"
    tried = subprocess.run(command(["true"]), capture_output=True, text=True, timeout=_TRY_SECONDS, check=False)
    if tried.returncode:
        return f"a network namespace cannot be made ({tried.stderr.strip()}): run it as root"
    return ""
