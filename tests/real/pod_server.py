"""What runs in a pod of a service network: `pod_server.py ADDRESSES PORT NAME [DELAY]`; commas separate addresses.

TCP: answers each line with its name and the line; "bytes N" with N bytes. UDP: answers each datagram with its name.
SIGTERM: it accepts nothing more, answers what it accepted for a while, and ends. DELAY: seconds before it listens.
"""

import asyncio
import os
import signal
import sys


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: bytes) -> None:
    try:
        while line := await reader.readline():
            words = line.split()
            if words[:1] == [b"echo"]:
                while piece := await reader.read(1 << 18):
                    writer.write(piece)
                    await writer.drain()
                break
            writer.write(name + b" " + line)
            await writer.drain()
        writer.write_eof()
    except OSError:
        pass
    finally:
        writer.close()


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self, name: bytes) -> None:
        self.name = name

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: object) -> None:
        self.transport.sendto(self.name + b" " + data, address)


async def main(addresses: str, port: str, name: str, delay: str = "0") -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await asyncio.sleep(float(delay))
    encoded = name.encode()
    every = addresses.split(",")
    server = await asyncio.start_server(lambda r, w: answer(r, w, encoded), every, int(port), backlog=4096)
    for address in every:
        await loop.create_datagram_endpoint(lambda: Datagrams(encoded), local_addr=(address, int(port)))
    await ended.wait()
    await asyncio.sleep(1)  # it drains: proxies still lead to it for a moment
    server.close()
    await asyncio.sleep(2)
    os._exit(0)


asyncio.run(main(*sys.argv[1:]))
