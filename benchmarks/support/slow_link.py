"""A TCP relay that makes a server far away: ``python slow_link.py PORT SECONDS``, to a server of this machine.

It prints its own port, and then brings what clients send so many seconds later; answers come at once, so that is the
time of a round trip.
"""

from __future__ import annotations

import asyncio
import sys


async def _bring(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    # Bytes that come while others wait are late by the same time, not by the sum.
    clock, waiting = asyncio.get_running_loop().time, asyncio.Queue[tuple[float, bytes]]()

    async def write() -> None:
        while True:
            due, data = await waiting.get()
            await asyncio.sleep(due - clock())
            if not data:
                return writer.close()
            writer.write(data)
            await writer.drain()

    writing = asyncio.ensure_future(write())
    try:
        while data := await reader.read(1 << 18):
            waiting.put_nowait((clock() + seconds, data))
    except ConnectionError:
        pass
    waiting.put_nowait((clock(), b""))
    await writing


async def _main(port: int, seconds: float) -> None:
    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        their_reader, their_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(
            _bring(reader, their_writer, seconds), _bring(their_reader, writer, 0.0), return_exceptions=True
        )

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), float(sys.argv[2])))
