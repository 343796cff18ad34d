"""A broker over TCP, a line for each command, for workers in any language.

    python examples/tcp_broker.py [DIRECTORY [PORT]]

    PUT queue delay text       OK number                 text is there after so many seconds; durable
    TAKE queue wait lease      MSG number attempts text  or NONE, when none came within `wait` seconds
    ACK number                 OK                        the message is done with; durable
    NACK number delay reason   OK                        it comes again after so many seconds

What goes wrong is answered as NO and the reason. A message whose lease is over goes to the next worker, and so does
one whose worker loses its connection. The third time that a message comes back, it moves to the queue `dead`.
"""

import asyncio
import contextlib
import signal
import sys
from functools import partial

from oms_journal import AsyncMessageDatabase, JournalError, Message

COMMANDS = "PUT queue delay text, TAKE queue wait lease, ACK number, NACK number delay reason"
Mine = dict[int, Message]  # what a connection has taken


async def obey(db: AsyncMessageDatabase, mine: Mine, line: str) -> str:
    """Do what a line says, and return the answer."""
    match line.split(" ", 3):
        case ["PUT", queue, delay, text]:
            return f"OK {await db.add(queue, text.encode(), delay=float(delay) or None)}"
        case ["TAKE", queue, wait, lease]:
            message = await db.take(queue, wait=float(wait), lease=float(lease))
            if message is None:
                return "NONE"
            mine[message.number] = message
            return f"MSG {message.number} {message.attempts} {message.payload.decode()}"
        case ["ACK", number]:
            await db.deliver(mine.pop(int(number)))
            return "OK"
        case ["NACK", number, delay, reason]:
            db.release(mine.pop(int(number)), delay=float(delay), reason=reason)
            return "OK"
        case _:
            return f"NO such command: {COMMANDS}"


async def serve(db: AsyncMessageDatabase, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one connection, line by line. What it has taken comes back when it ends."""
    mine: Mine = {}
    try:
        while line := await reader.readline():
            try:
                answer = await obey(db, mine, line.decode().rstrip("\r\n"))
            except KeyError:
                answer = "NO message of yours has this number"
            except (JournalError, ValueError) as failure:
                answer = f"NO {failure}"
            writer.write(f"{answer}\n".encode())
            await writer.drain()
    except (ConnectionError, ValueError, asyncio.CancelledError):  # gone, a line above 64 KiB, or the broker ends
        pass
    finally:
        for message in mine.values():
            with contextlib.suppress(JournalError):  # its lease is over, or the broker ends
                db.release(message, reason="its connection was lost")
        writer.close()


async def main(directory: str = "tcp-broker-store", port: str = "0") -> None:
    ended = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, ended.set)
    async with AsyncMessageDatabase.open(directory, max_attempts=3, dead_letter="dead") as db:
        server = await asyncio.start_server(partial(serve, db), "127.0.0.1", int(port))
        print("ready at port", server.sockets[0].getsockname()[1], flush=True)
        await ended.wait()
        server.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
