"""The program of the Telegram starter: a channel plugin for bots, over Telegram's HTTP interface."""

from __future__ import annotations

ABOUT = "Carries messages of a Telegram bot."

PROGRAM = r'''#!/usr/bin/env python3
"""A Telegram bot as a channel: a line of JSON for each message, in both directions. It ends when its stdin does.

TELEGRAM_TOKEN has the bot's token (from @BotFather). It fetches messages only if TOOLCRIB_CHANNEL_LISTEN is not 0,
because Telegram gives each message to one program. The interface: https://core.telegram.org/bots/api
"""

import json
import mimetypes
import os
import pathlib
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

API = os.environ.get("TELEGRAM_API", "https://api.telegram.org").rstrip("/")
TOKEN = os.environ.get("TELEGRAM_TOKEN", "")
LISTEN = os.environ.get("TOOLCRIB_CHANNEL_LISTEN", "1") != "0"
ALLOWED = json.loads(os.environ.get("TOOLCRIB_CHANNEL_ALLOWED", '["*"]'))  # ids of senders
POLL_SECONDS = 50  # of one request for messages
SECONDS = 20  # of any other request
MAX_TEXT, MAX_CAPTION = 4096, 1024  # UTF-16 units, as Telegram counts
MAX_PAUSE = 10  # seconds that Telegram may ask us to wait before a message is sent
MAX_PHOTO = 10 << 20  # bytes of a file that is sent as a photo; others are documents
MAX_DOWNLOAD = 5 << 20  # bytes of a photo that is fetched
MAX_KEPT = 20  # fetched photos
PHOTOS = (".png", ".jpg", ".jpeg", ".webp")
INBOX = pathlib.Path.cwd() / "in"  # in the plugin's folder
lock = threading.Lock()


class Refused(Exception):
    """Telegram refused a request."""

    def __init__(self, code, text, pause=None):
        super().__init__(f"{text} ({code})")
        self.code, self.pause = code, pause


def say(message):
    with lock:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def call(method, fields, file=None, seconds=SECONDS):
    """Call a method; the URL holds the token, so no error may name it."""
    if file is None:
        kind, body = "application/json", json.dumps(fields).encode()
    else:
        kind, body = form(fields, *file)
    request = urllib.request.Request(f"{API}/bot{TOKEN}/{method}", body, {"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=seconds) as response:
            answer = json.load(response)
    except urllib.error.HTTPError as error:
        try:
            answer = json.load(error)
        except ValueError:
            answer = {"error_code": error.code, "description": error.reason}
    if not answer.get("ok"):
        pause = (answer.get("parameters") or {}).get("retry_after")
        raise Refused(answer.get("error_code"), answer.get("description"), pause)
    return answer["result"]


def form(fields, name, path):
    """The body of a request with a file: multipart/form-data."""
    edge = uuid.uuid4().hex
    parts = [
        f'--{edge}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in fields.items()
    ]
    shown = "".join(c if c.isprintable() and c not in '"\\' else "_" for c in path.name)
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    head = f'--{edge}\r\nContent-Disposition: form-data; name="{name}"; filename="{shown}"\r\n'
    head += f"Content-Type: {kind}\r\n\r\n"
    body = b"".join([*parts, head.encode(), path.read_bytes(), f"\r\n--{edge}--\r\n".encode()])
    return f"multipart/form-data; boundary={edge}", body


def patiently(method, fields, file=None):
    """Call a method, once more if Telegram asks for a short pause."""
    try:
        return call(method, fields, file)
    except Refused as error:
        if error.code != 429 or not 0 < (error.pause or 0) <= MAX_PAUSE:
            raise
        time.sleep(error.pause)
        return call(method, fields, file)


def size(text):
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def pieces(text, limit=MAX_TEXT):
    """The text in pieces that Telegram takes, cut at the end of a line where there is one."""
    while size(text) > limit:
        end = min(len(text), limit)
        while size(text[:end]) > limit:
            end -= 1
        line = text.rfind("\n", end // 2, end)
        end = line + 1 if line > 0 else end
        yield text[:end]
        text = text[end:]
    if text:
        yield text


def send(message):
    fields = {"chat_id": message["chat_id"]}
    first = dict(fields)
    answered = str((message.get("metadata") or {}).get("message_id") or "")
    if answered.isascii() and answered.isdigit():
        first["reply_parameters"] = {"message_id": int(answered), "allow_sending_without_reply": True}
    sent = []
    for piece in pieces(message["content"]):
        if piece.strip():
            sent.append(patiently("sendMessage", {**(fields if sent else first), "text": piece})["message_id"])
    for name in message.get("media") or ():
        path = pathlib.Path(name)
        photo = path.suffix.lower() in PHOTOS and path.stat().st_size <= MAX_PHOTO
        method, field = ("sendPhoto", "photo") if photo else ("sendDocument", "document")
        sent.append(patiently(method, fields, (field, path))["message_id"])
    return {"message_ids": sent}


def photo_of(message):
    """Fetch the largest photo that is small enough; its path in a list."""
    sizes = [each for each in message.get("photo") or () if each.get("file_size", 0) <= MAX_DOWNLOAD]
    if not sizes:
        return []
    place = call("getFile", {"file_id": sizes[-1]["file_id"]})["file_path"]
    with urllib.request.urlopen(f"{API}/file/bot{TOKEN}/{place}", timeout=SECONDS) as response:
        data = response.read(MAX_DOWNLOAD + 1)
    INBOX.mkdir(exist_ok=True)
    for old in sorted(INBOX.glob("*.jpg"))[: -MAX_KEPT + 1]:
        old.unlink()
    path = INBOX / f"{time.time_ns()}.jpg"  # never a name that the sender chose
    path.write_bytes(data)
    return [str(path)] if len(data) <= MAX_DOWNLOAD else []


def inbound(message):
    text = message.get("text") or message.get("caption") or ""
    sender = message.get("from") or {}
    if "*" not in ALLOWED and str(sender.get("id")) not in ALLOWED:
        return  # before anything of it is fetched
    media = []
    try:
        media = photo_of(message)
    except (Refused, OSError) as error:
        print(f"a photo could not be fetched: {type(error).__name__}", file=sys.stderr)
    if text or media:
        params = {"chat_id": message["chat"]["id"], "content": text, "sender_id": sender.get("id"), "media": media}
        params["forwarded"] = "forward_origin" in message or "via_bot" in message  # not written by the sender
        say({"method": "inbound", "params": {**params, "message_id": message["message_id"]}})


def poll():
    """Fetch messages for ever. The next request tells Telegram which ones arrived."""
    offset, pause = 0, 1
    while True:
        try:
            fields = {"timeout": POLL_SECONDS, "offset": offset, "allowed_updates": ["message"]}
            for update in call("getUpdates", fields, seconds=POLL_SECONDS + SECONDS):
                offset = update["update_id"] + 1
                if "message" in update:
                    inbound(update["message"])
            pause = 1
        except Exception as error:  # an answer that was cut off, or that is none: this thread must not end
            code = getattr(error, "code", None)
            said = str(error).replace(TOKEN, "TOKEN")  # an error about an address names it
            print(f"messages could not be fetched: {said}", file=sys.stderr, flush=True)
            if code in (401, 404):
                print("is TELEGRAM_TOKEN the token of a bot?", file=sys.stderr, flush=True)
                os._exit(1)
            time.sleep(getattr(error, "pause", None) or pause)
            pause = min(pause * 2, 30)


if not TOKEN:
    sys.exit("TELEGRAM_TOKEN is not set")
if LISTEN:
    threading.Thread(target=poll, daemon=True).start()
for line in sys.stdin:
    request = json.loads(line)
    try:
        say({"id": request["id"], "result": send(request["params"])})
    except (Refused, OSError, ValueError, KeyError) as error:
        say({"id": request["id"], "error": {"code": getattr(error, "code", None) or 1, "message": str(error)}})
'''
