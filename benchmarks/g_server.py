"""Fake OpenAI-compatible chat-completions server: 20 turns x 4 parallel tool calls, then a final answer.  Pure asyncio, prebuilt bytes."""

import asyncio, json, sys, time, os

TURNS, PAR = 20, 4
busy = [0.0, 0]


def args(t, k):
    return json.dumps({"path": f"/srv/data/project/src/{t}/{k}", "limit": 250, "recursive": True, "mode": "full"})


def final_calls():
    return [
        {
            "id": "call_final",
            "type": "function",
            "function": {"name": "final_answer", "arguments": json.dumps({"answer": "done"})},
        }
    ]


def calls(t):
    return [
        {"id": f"call_{t}_{k}", "type": "function", "function": {"name": "noop", "arguments": args(t, k)}}
        for k in range(PAR)
    ]


U = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}


def http(body, ctype):
    return (f"HTTP/1.1 200 OK\r\nContent-Type: {ctype}\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body


def plain(tc):
    m = {"role": "assistant", "content": None if tc else "done", **({"tool_calls": tc} if tc else {})}
    return http(
        json.dumps(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 1,
                "model": "fake",
                "usage": U,
                "choices": [
                    {"index": 0, "message": m, "finish_reason": "tool_calls" if tc else "stop", "logprobs": None}
                ],
            }
        ).encode(),
        "application/json",
    )


def stream(tc):
    ch = lambda d, fr=None, **k: (
        b"data: "
        + json.dumps(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "fake",
                "choices": [{"index": 0, "delta": d, "finish_reason": fr}],
                **k,
            }
        ).encode()
        + b"\n\n"
    )
    b = ch({"role": "assistant", "content": "" if tc else "done"})
    for i, c in enumerate(tc or []):
        b += ch({"tool_calls": [{"index": i, **c}]})
    b += ch({}, "tool_calls" if tc else "stop")
    b += (
        b"data: "
        + json.dumps(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "fake",
                "choices": [],
                "usage": U,
            }
        ).encode()
        + b"\n\ndata: [DONE]\n\n"
    )
    return http(b, "text/event-stream")


P = [plain(calls(t)) for t in range(TURNS)] + [plain(None)]
S = [stream(calls(t)) for t in range(TURNS)] + [stream(None)]
PF = plain(final_calls())


class Proto(asyncio.Protocol):
    def connection_made(self, tr):
        self.tr = tr
        self.buf = bytearray()
        import socket

        tr.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, d):
        t0 = time.perf_counter()
        self.buf += d
        while True:
            i = self.buf.find(b"\r\n\r\n")
            if i < 0:
                break
            head = bytes(self.buf[:i]).lower()
            n = 0
            j = head.find(b"content-length:")
            if j >= 0:
                n = int(head[j + 15 :].split(b"\r\n", 1)[0])
            if len(self.buf) < i + 4 + n:
                break
            body = bytes(self.buf[i + 4 : i + 4 + n])
            del self.buf[: i + 4 + n]
            if head.startswith(b"get /stats"):
                self.tr.write(http(json.dumps(busy).encode(), "application/json"))
                busy[:] = [0.0, 0]
                continue
            turn = min(max(body.count(b'"tool_call_id"') // PAR, body.count(b"Calling tools:")), TURNS)
            s = b'"stream":true' in body.replace(b": ", b":")
            if turn >= TURNS and b"final_answer" in body and not s:
                self.tr.write(PF)
            else:
                self.tr.write((S if s else P)[turn])
            busy[1] += 1
        busy[0] += time.perf_counter() - t0


async def main():
    s = await asyncio.get_running_loop().create_server(Proto, "127.0.0.1", int(sys.argv[1]))
    print("up", flush=True)
    await s.serve_forever()


asyncio.run(main())
