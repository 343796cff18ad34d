"""What the log says of itself in fields: the events of a server that tools may wait for, and what each carries.

event            fields                      when
listening        addresses, seconds          it serves, so long after its start; again after a takeover
standby          addresses                   it stands by
stopping         why                         it was told to stop
stopped          connections, seconds        it has: so many were ended, in so much time
taken_over       -                           another broker has the store
connection       connection, user            a STOMP connection ends with an ERROR
login_refused    user, peer                  a wrong user or password
login_limited    user, peer                  too many of them: nothing is looked at for a while
users_read       users, changed              the users file was read again
certificate_read -                           a renewed certificate is used
attributes       warnings, differences       the attribute file makes it other than a start without one
held             uows, publications          so much is held since the store was restored from a backup
insecure         host                        INSECURE-NETWORK=YES lets everybody in the network in
exhausted        reason                      the system has no descriptor or memory left for a connection
wide             path, mode                  others can reach what only the broker should
message          -                           any other line
"""

from typing import Any

EVENTS = frozenset(
    line.split()[0] for line in (__doc__ or "").splitlines()[3:] if line
)  # a tool may rely on these names, and on their fields


def event(name: str, **fields: Any) -> dict[str, Any]:
    """Return what a line of the log is given as `extra`; the fields go into JSON as they are."""
    assert name in EVENTS or not EVENTS, name
    return {"fields": {"event": name, **fields}}
