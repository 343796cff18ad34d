"""What a driver of the broker's store raises."""


class StoreError(Exception):
    """The root of what a driver raises.

    StoreError
    ├── StoreUnavailable   nothing can be written or read; carries whether the commit was attempted
    ├── StoreFull          no room for messages: nothing was written, commits without any go on
    ├── CommitRefused      the store is well, this commit cannot be carried out: nothing was written
    │   └── ProducerReused     since its producer's identifier was used for other messages
    └── MessageUnreadable  one message: it is gone, or its bytes are damaged
    """


class StoreUnavailable(StoreError):
    """The store is lost or disconnected.

    A commit that `was_attempted` may be there when another process opens the store; after `connect` in this one it
    is not, as it is not when it was not attempted.
    """

    def __init__(self, text: str, *, was_attempted: bool = False) -> None:
        super().__init__(text)
        self.was_attempted = was_attempted


class StoreFull(StoreError):
    """There is no room for new messages."""


class CommitRefused(StoreError):
    """This commit is over a limit, or removes what is gone."""


class ProducerReused(CommitRefused):
    """The producer's identifier of this commit was used for other messages, or for a part of it."""


class MessageUnreadable(StoreError):
    """A message cannot be handed out."""
