"""Log in to a server: authorization code with PKCE by the SDK's provider. We store the tokens in our own file.

A client that was registered beforehand is in the settings (`client_id`). Others identify themselves with a metadata
document (`metadata_url`) if the server supports that, or the server registers them. Only a `LoginDoor` can send a
person to a login page: `toolcrib mcp login` has one. Without it, a server that requires a login fails with an error
that says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl

from ...boundary.own_files import replace_file
from ...core.errors import ToolError
from ...record.state import private_folder
from .config import OAuthConfig, ServerConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.client.auth.oauth2 import OAuthContext

    from .client_services import ClientServices, LoginDoor

log = logging.getLogger("toolcrib.mcp")

CLIENT_NAME = "Toolcrib"
EXPIRY_SLACK = 30.0
"""How many seconds before its end a token counts as expired."""


def provider(config: ServerConfig, url: str, services: ClientServices) -> OAuthClientProvider | None:
    """Return the provider that adds tokens to requests, renews them, and sends a person to the login page if it has a
    door.

    None if there is neither a token nor a door: then no login is tried.
    """
    given = config.oauth
    storage = TokenFile(services.tokens, url, services.learn)
    door = services.login(config) if services.login is not None else None
    if door is None and not storage.has_tokens:
        return None
    redirect = door.redirect_uri if door is not None else storage.redirect_uri
    if given.client_id is not None:
        secret = services.resolve(given.client_secret, f"mcp:{config.name}") if given.client_secret else None
        storage.use_client(_registered(given.client_id, secret, redirect))
    elif door is not None:
        storage.forget_client_unless(redirect)
    found = OAuthClientProvider(
        server_url=url,
        client_metadata=OAuthClientMetadata(
            client_name=CLIENT_NAME, redirect_uris=[AnyUrl(redirect)],
            grant_types=["authorization_code", "refresh_token"], scope=given.scopes,
        ),
        storage=storage,
        redirect_handler=_sender(config, given, door),
        callback_handler=_receiver(config, door),
        client_metadata_url=given.metadata_url,
    )  # fmt: skip
    storage.attach(found.context)
    return found


def _registered(client_id: str, secret: str | None, redirect: str) -> OAuthClientInformationFull:
    method = "client_secret_basic" if secret else "none"
    return OAuthClientInformationFull(
        client_id=client_id, client_secret=secret, redirect_uris=[AnyUrl(redirect)], token_endpoint_auth_method=method
    )


def _sender(config: ServerConfig, given: OAuthConfig, door: LoginDoor | None) -> Callable[[str], Any]:
    async def send(url: str) -> None:
        if door is None:
            raise ToolError(needs_login(config.name))
        await door.open(with_scopes(url, given.scopes))

    return send


def _receiver(config: ServerConfig, door: LoginDoor | None) -> Callable[[], Any]:
    async def receive() -> AuthorizationCodeResult:
        if door is None:
            raise ToolError(needs_login(config.name))
        answer = dict(await door.answer())
        if answer.get("error"):
            raise ToolError(f"the login was refused: {answer['error']} {answer.get('error_description', '')}".strip())
        return AuthorizationCodeResult(code=answer.get("code", ""), state=answer.get("state"), iss=answer.get("iss"))

    return receive


def needs_login(name: str) -> str:
    """Return the text that says how to log in to a server that requires it."""
    return f"it wants a login: run `toolcrib mcp login {name}`"


def with_scopes(url: str, scopes: str | None) -> str:
    """Return the address of a login page with these scopes added."""
    if not scopes:
        return url
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    asked = query.get("scope", "").split()
    query["scope"] = " ".join([*asked, *(scope for scope in scopes.split() if scope not in asked)])
    return urlunsplit(parts._replace(query=urlencode(query)))


class TokenFile:
    """The tokens of one server and the client they were given to, in a file of mode 0600. It is the SDK's storage.

    The file also has what the SDK does not store: when the token expires, and where it is renewed. Without these,
    an expired token would require a new login in each new process.
    """

    def __init__(self, folder: Path, url: str, learn: Callable[[str, str], None]) -> None:
        self.path = folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"
        self._url, self._learn = url, learn
        self._context: OAuthContext | None = None
        self._kept = self._read()
        self._client: OAuthClientInformationFull | None = None
        self._tell()

    @property
    def has_tokens(self) -> bool:
        """Whether a login has been stored."""
        return "tokens" in self._kept

    @property
    def redirect_uri(self) -> str:
        """The redirect address of the stored login."""
        uris = self._uris
        return uris[0] if uris else "http://127.0.0.1/callback"

    def use_client(self, client: OAuthClientInformationFull) -> None:
        """Use the client from the settings."""
        kept = self._part("client")
        if kept.get("client_id") != client.client_id:
            self._kept = {}  # tokens of another client are useless
        client.issuer = kept.get("issuer") if self._kept else None
        self._client = client

    def forget_client_unless(self, redirect: str) -> None:
        """Forget the registered client if its redirect address is another one."""
        if redirect not in self._uris:
            self._kept.pop("client", None)

    def attach(self, context: OAuthContext) -> None:
        """Give the SDK the values that it does not request from its storage."""
        self._context = context
        with contextlib.suppress(ValueError):
            if "metadata" in self._kept:
                context.oauth_metadata = OAuthMetadata.model_validate(self._kept["metadata"])
            if "resource" in self._kept:
                context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(self._kept["resource"])
        context.auth_server_url = self._kept.get("issuer")
        context.token_expiry_time = self._kept.get("expires_at")

    # --- the SDK's storage

    async def get_tokens(self) -> OAuthToken | None:
        return self._parsed("tokens", OAuthToken)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._kept["tokens"] = tokens.model_dump(mode="json", exclude_none=True)
        self._kept["expires_at"] = None if tokens.expires_in is None else time.time() + tokens.expires_in - EXPIRY_SLACK
        context = self._context
        if context is not None:
            context.token_expiry_time = self._kept["expires_at"]
            for key, value in (("metadata", context.oauth_metadata), ("resource", context.protected_resource_metadata)):
                if value is not None:
                    self._kept[key] = value.model_dump(mode="json", exclude_none=True)
            self._kept["issuer"] = context.auth_server_url
            if context.client_info is not None:
                self._kept["client"] = context.client_info.model_dump(mode="json", exclude_none=True)
        self._tell()
        self._write()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client or self._parsed("client", OAuthClientInformationFull)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._kept["client"] = client_info.model_dump(mode="json", exclude_none=True)
        self._tell()
        self._write()

    def forget(self) -> bool:
        """Log out: delete everything. Return whether there was anything to delete."""
        self._kept = {}
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True

    @property
    def _uris(self) -> list[str]:
        return cast("list[str]", self._part("client").get("redirect_uris") or [])

    def _part(self, key: str) -> dict[str, Any]:
        value = self._kept.get(key)
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}

    def _parsed(self, key: str, model: Any) -> Any:
        try:
            return model.model_validate(self._kept[key]) if key in self._kept else None
        except ValueError:
            return None

    def _tell(self) -> None:
        """Register the secrets with the redactor, which removes them from every text."""
        for key in ("access_token", "refresh_token"):
            if value := self._part("tokens").get(key):
                self._learn(key, value)
        if secret := self._part("client").get("client_secret"):
            self._learn("client_secret", secret)

    def _read(self) -> dict[str, Any]:
        try:
            if hasattr(os, "getuid") and (st := self.path.lstat()) and (st.st_uid != os.getuid() or st.st_mode & 0o077):
                log.warning(
                    "%s: others could read or write these tokens, so they are not used; log in again", self.path
                )
                return {}
            value: Any = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            log.warning("%s: these tokens cannot be read (%s); log in again", self.path, error)
            return {}
        return cast("dict[str, Any]", value) if isinstance(value, dict) and value.get("url") == self._url else {}  # pyright: ignore[reportUnknownMemberType]

    def _write(self) -> None:
        private_folder(self.path.parent.parent)
        private_folder(self.path.parent)
        replace_file(self.path, json.dumps({**self._kept, "url": self._url}))
