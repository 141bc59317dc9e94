"""`python -m perf.model_server`: a model's server that answers at once; prints its port, ends with its input.

`x-hold: 1` makes it hold a stream open after its first event until it is ended.
"""

import asyncio
import json
import sys

import uvloop
from aiohttp import web

_WORDS = 40


def _events() -> list[bytes]:
    usage = {"input_tokens": 1000, "output_tokens": 1}
    head = {"id": "msg", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": []}
    delta = {"type": "content_block_delta", "index": 0}
    told: list[dict[str, object]] = [
        {"type": "message_start", "message": {**head, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({**delta, "delta": {"type": "text_delta", "text": f"word {number} "}} for number in range(_WORDS)),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": _WORDS}},
        {"type": "message_stop"},
    ]
    return [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in told]


async def _serve() -> None:
    pieces = _events()
    ended = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(pieces[0])
        if "x-hold" in request.headers:
            await ended.wait()
            return response
        for piece in pieces[1:]:
            await response.write(piece)
        return response

    runner = web.ServerRunner(web.Server(answer, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    ended.set()
    await runner.cleanup()


if __name__ == "__main__":
    uvloop.run(_serve())
