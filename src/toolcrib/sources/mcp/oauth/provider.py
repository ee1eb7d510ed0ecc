"""Log in to a server: authorization code with PKCE by the SDK's provider. We store the tokens in our own file.

A client that was registered beforehand is in the settings (`client_id`). Others identify themselves with a metadata
document (`metadata_url`) if the server supports that, or the server registers them. Only a `LoginDoor` can send a
person to a login page: `toolcrib mcp login` has one. Without it, a server that requires a login fails with an error
that says so.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared import auth
from pydantic import AnyUrl, BaseModel

from ....boundary.network.address_guard import AddressGuard
from ....boundary.network.host_names import is_loopback
from ....core.errors import ToolError
from ....record.state import write_private
from ..client_services import ClientServices, LoginDoor
from ..config import ServerConfig
from ..http_transport import names_private
from ..server_questions import is_web_page

log = logging.getLogger("toolcrib.mcp")

CLIENT_NAME = "Toolcrib"
EXPIRY_SLACK = 30.0
"""How many seconds before its end a token counts as expired; of a short life it is half."""


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
        method = "client_secret_basic" if secret else "none"
        client = auth.OAuthClientInformationFull(
            client_id=given.client_id, client_secret=secret, redirect_uris=[AnyUrl(redirect)],
            token_endpoint_auth_method=method,
        )  # fmt: skip
        storage.use_client(client)
    elif door is not None:
        storage.forget_client_unless(redirect)
    guard = services.guard() if services.guard is not None else None
    if guard is not None and not config.guarded and names_private(url, guard):
        guard = None
    login = _Login(config, door, storage, guard) if door is not None else None
    found = (OAuthClientProvider if login is not None else _WithoutDoor)(
        server_url=url,
        client_metadata=auth.OAuthClientMetadata(
            client_name=CLIENT_NAME, redirect_uris=[AnyUrl(redirect)],
            grant_types=["authorization_code", "refresh_token"], scope=given.scopes,
        ),
        storage=storage,
        redirect_handler=login and login.send,
        callback_handler=login and login.receive,
        client_metadata_url=given.metadata_url,
    )  # fmt: skip
    storage.attach(found.context)
    return found


class _WithoutDoor(OAuthClientProvider):
    """Adds and renews tokens. Where the server refuses them, it ends: nobody could log in, and what the server then
    says of its authorization server must not be where the next renewal goes."""

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        async with aclosing(super().async_auth_flow(request)) as flow:
            sent = await anext(flow)
            while True:
                response = yield sent
                if sent is request and response.status_code in (401, 403):
                    return
                try:
                    sent = await flow.asend(response)
                except StopAsyncIteration:
                    return


class _Login:
    """What the SDK calls to send a person to a login page and back. Raises ToolError for a second login with the same
    scopes, and if the tokens, or the secret of a client in the settings, would go to the wrong place."""

    def __init__(self, config: ServerConfig, door: LoginDoor, storage: TokenFile, guard: AddressGuard | None) -> None:
        self._config, self._door, self._storage, self._guard = config, door, storage, guard
        self._asked: set[str] = set()  # scopes of earlier logins; a server may want a login with more of them

    async def send(self, url: str) -> None:
        self._storage.check_issuer(self._config)
        scopes = dict(parse_qsl(urlsplit(url).query)).get("scope", "")
        if scopes in self._asked:
            raise ToolError("it wants another login right after this one: it does not accept its own new token")
        self._asked.add(scopes)
        if not is_web_page(url):
            raise ToolError(f"its login page is no plain http or https address: {url}")
        if self._guard is not None:  # the browser opens the page at once
            page = urlsplit(url)
            await self._guard.admit(page.hostname or "", page.port or (443 if page.scheme == "https" else 80))
        await self._door.open(with_scopes(url, self._config.oauth.scopes))

    async def receive(self) -> auth.AuthorizationCodeResult:
        answer = dict(await self._door.answer())
        if answer.get("error"):
            raise ToolError(f"the login was refused: {answer['error']} {answer.get('error_description', '')}".strip())
        return auth.AuthorizationCodeResult(
            code=answer.get("code", ""), state=answer.get("state"), iss=answer.get("iss")
        )


def _issuer(context: OAuthContext) -> str:
    """Return the authorization server that a login would use: the server itself if it names none, or if the one that
    it names does not describe itself."""
    here = urlsplit(context.server_url)
    named = context.auth_server_url if context.oauth_metadata is not None else None
    return named or f"{here.scheme}://{here.netloc}"


def is_private(url: str) -> bool:
    """Return whether what is sent to an address is encrypted, or stays on this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def with_scopes(url: str, scopes: str | None) -> str:
    """Return the address of a login page with these scopes added."""
    if not scopes:
        return url
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    asked = query.get("scope", "").split()
    query["scope"] = " ".join([*asked, *(scope for scope in scopes.split() if scope not in asked)])
    return urlunsplit(parts._replace(query=urlencode(query)))


class SavedLogin(BaseModel):
    """The content of a token file, also what the SDK does not store: when the token expires, and where it is renewed.

    Without these, an expired token would require a new login in each new process.
    """

    url: str
    tokens: auth.OAuthToken | None = None
    client: auth.OAuthClientInformationFull | None = None
    metadata: auth.OAuthMetadata | None = None
    resource: auth.ProtectedResourceMetadata | None = None
    issuer: str | None = None
    pinned: str | None = None
    expires_at: float | None = None


class TokenFile:
    """The tokens of one server and the client they were given to, in a file of mode 0600. It is the SDK's storage."""

    def __init__(self, folder: Path, url: str, learn: Callable[[str, str], None]) -> None:
        self.path = folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"
        self._learn = learn
        self._context: OAuthContext | None = None
        self._saved = self._read(SavedLogin(url=url))
        self._tell()

    @property
    def has_tokens(self) -> bool:
        """Whether a login has been stored."""
        return self._saved.tokens is not None

    @property
    def redirect_uri(self) -> str:
        """The redirect address of the stored login."""
        uris = self._uris
        return uris[0] if uris else "http://127.0.0.1/callback"

    def use_client(self, client: auth.OAuthClientInformationFull) -> None:
        """Use the client from the settings."""
        saved = self._saved.client
        if saved is None or saved.client_id != client.client_id:
            self._saved = SavedLogin(url=self._saved.url)  # tokens of another client are useless
        self._saved.client = client  # the SDK would replace one of another issuer; `check_issuer` refuses that

    def forget_client_unless(self, redirect: str) -> None:
        """Forget the registered client if its redirect address is another one."""
        if redirect not in self._uris:
            self._saved.client = None

    def attach(self, context: OAuthContext) -> None:
        """Give the SDK the values that it does not request from its storage."""
        self._context, saved = context, self._saved
        context.oauth_metadata, context.protected_resource_metadata = saved.metadata, saved.resource
        context.auth_server_url, context.token_expiry_time = saved.issuer, saved.expires_at

    def check_issuer(self, config: ServerConfig) -> None:
        """Refuse a login whose tokens, or the secret of a client in the settings, would be sent without encryption, or
        to another authorization server than the one in the settings or of the first login, and one with an
        authorization server that does not say that it supports PKCE. Raises ToolError."""
        context, given = self._context, config.oauth
        if context is None:
            return
        metadata = context.oauth_metadata
        endpoint = str(metadata.token_endpoint) if metadata is not None else context.server_url
        issuer = _issuer(context)
        expected = given.issuer or (self._saved.pinned if given.client_id is not None else None)
        try:
            if not is_private(endpoint):
                raise ToolError(f"its login would send tokens to {endpoint} without encryption; it must be https")
            said = metadata is None or "S256" in (metadata.code_challenge_methods_supported or ())
            if not said and not given.assume_pkce:
                raise ToolError(
                    f"its authorization server {issuer} does not say that it supports PKCE (S256), so others could use "
                    f"what the login page answers. If it does, set mcp_servers.{config.name}.oauth.assume_pkce to true"
                )
            if expected is not None and expected.rstrip("/") != issuer.rstrip("/"):
                where = f"mcp_servers.{config.name}.oauth.issuer" if given.issuer else "the first login"
                raise ToolError(
                    f"it now names {issuer} as its authorization server, and {where} was for {expected}. Nothing "
                    f"was sent there. If the change is right, set mcp_servers.{config.name}.oauth.issuer to {issuer!r}"
                )
        except ToolError:
            self.attach(context)  # else a renewal would go to what was found just now
            raise

    # --- the SDK's storage

    async def get_tokens(self) -> auth.OAuthToken | None:
        return self._saved.tokens

    async def set_tokens(self, tokens: auth.OAuthToken) -> None:
        saved, context = self._saved, self._context
        saved.tokens = tokens
        life = tokens.expires_in
        saved.expires_at = None if life is None else time.time() + life - min(EXPIRY_SLACK, life / 2)
        if context is not None:
            context.token_expiry_time = saved.expires_at
            saved.metadata = context.oauth_metadata or saved.metadata
            saved.resource = context.protected_resource_metadata or saved.resource
            saved.issuer = context.auth_server_url
            saved.pinned = _issuer(context)
            saved.client = context.client_info or saved.client
        self._save()

    async def get_client_info(self) -> auth.OAuthClientInformationFull | None:
        return self._saved.client

    async def set_client_info(self, client_info: auth.OAuthClientInformationFull) -> None:
        self._saved.client = client_info
        self._save()

    def forget(self, config: ServerConfig) -> bool:
        """Log out: delete everything except where the client of the settings was used first. Return whether there was a
        login."""
        saved, there = self._saved, self.path.exists()
        self._saved = SavedLogin(url=saved.url)
        self.path.unlink(missing_ok=True)
        if config.oauth.client_id is None or saved.client is None or saved.pinned is None:
            return there
        client = saved.client.model_copy(update={"client_secret": None})
        self._saved = SavedLogin(url=saved.url, client=client, pinned=saved.pinned)
        self._save()
        return saved.tokens is not None

    @property
    def _uris(self) -> list[str]:
        client = self._saved.client
        return list(map(str, client.redirect_uris or ())) if client is not None else []

    def _tell(self) -> None:
        """Register the secrets with the redactor, which removes them from every text."""
        for part, key in (
            (self._saved.tokens, "access_token"), (self._saved.tokens, "refresh_token"),
            (self._saved.client, "client_secret"),
        ):  # fmt: skip
            if value := getattr(part, key, None):
                self._learn(key, value)

    def _read(self, nothing: SavedLogin) -> SavedLogin:
        try:
            if hasattr(os, "getuid") and (st := self.path.lstat()) and (st.st_uid != os.getuid() or st.st_mode & 0o077):
                log.warning(
                    "%s: others could read or write these tokens, so they are not used; log in again", self.path
                )
                return nothing
            saved = SavedLogin.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return nothing
        except (OSError, ValueError) as error:  # its text could show the tokens
            log.warning("%s: these tokens cannot be read (%s); log in again", self.path, type(error).__name__)
            return nothing
        if saved.metadata is not None and not is_private(str(saved.metadata.token_endpoint)):
            log.warning(
                "%s: these tokens are renewed without encryption, so they are not used; log in again", self.path
            )
            return nothing
        return saved if saved.url == nothing.url else nothing

    def _save(self) -> None:
        self._tell()
        write_private(self.path, self._saved.model_dump_json(exclude_none=True))
