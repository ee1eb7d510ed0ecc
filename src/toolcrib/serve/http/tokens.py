"""Whose token a request has: a named one of the settings, or the one token of the server. Only hashes are stored."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ...boundary.network.host_names import is_loopback
from ...config.serve_settings import ServeSettings, TokenSettings, moment
from ...core.caller import Caller
from ...core.dataclass import dataclass
from ...core.errors import ConfigError
from ...policy.rules.match import why_never
from ...policy.rules.rule_grammar import VERDICTS, Rule, RuleSource, parse_rule
from ..defaults import TOKEN_VARIABLE

MIN_TOKEN = 16
PREFIX = "sha256:"


@dataclass(frozen=True, slots=True)
class Token:
    """A token that is accepted. `caller` is None for the one token of the server. `expires` is in Unix seconds.
    `monitoring`: it is for the pages of programs that watch the server, and for nothing else."""

    digest: str
    caller: Caller | None = None
    expires: float | None = None
    monitoring: bool = False


class Tokens:
    """The tokens that are accepted now. `required`: whether a request needs one."""

    def __init__(self, tokens: Iterable[Token], *, required: bool = True) -> None:
        self.all, self.required = tuple(tokens), required

    def find(self, value: bytes) -> Token | None:
        """Return the token with this value, also if it has expired. Each hash is compared, in constant time."""
        digest = digest_of(value)
        found = [token for token in self.all if hmac.compare_digest(token.digest, digest)]
        return found[0] if found else None

    def accepts(self, token: Token) -> bool:
        """Return whether a token that was found before is still accepted."""
        return token in self.all and not has_expired(token)


def has_expired(token: Token) -> bool:
    """Return whether its time is over."""
    return token.expires is not None and time.time() >= token.expires


def digest_of(value: bytes) -> str:
    """Return the hash of a token, as the settings have it."""
    return PREFIX + hashlib.sha256(value).hexdigest()


def new_token() -> str:
    """Return a new token, with 192 random bits."""
    return secrets.token_urlsafe(24)


def named_tokens(settings: ServeSettings, known: Tokens | None = None) -> tuple[Token, ...]:
    """Return the named tokens of the settings. Raises ConfigError for an invalid rule.

    A token that is unchanged in `known` is the same object there, with the same caller.
    """
    before = {} if known is None else {each.caller.name: each for each in known.all if each.caller is not None}
    return tuple(_unchanged(_token(each), before.get(each.name)) for each in settings.tokens)


def _token(given: TokenSettings) -> Token:
    caller = Caller(given.name, given.mode, given.tools, tuple(_rules(given)))
    return Token(given.hash, caller, None if given.expires is None else moment(given.expires), given.monitoring)


def _unchanged(token: Token, before: Token | None) -> Token:
    new, old = token.caller, before.caller if before is not None else None
    if before is None or new is None or old is None:
        return token
    same = replace(token, caller=None) == replace(before, caller=None)
    limits = (new.mode, new.tools, new.rules) == (old.mode, old.tools, old.rules)
    return before if same and limits else token


def _rules(given: TokenSettings) -> Iterator[Rule]:
    where = f"serve.tokens {given.name}"
    for verdict in VERDICTS:
        for written in getattr(given.rules, verdict):
            rule = parse_rule(written, verdict, RuleSource(where, where))
            why = why_never(rule)
            if why is not None:
                raise ConfigError(f"{where}: the rule {rule.shown} can never match: {why}")
            yield rule


def choose_token(token: str | None, host: str, named: Iterable[Token] = ()) -> tuple[str | None, bool]:
    """Return the one token of the server (None: there is none), and whether it was generated here. None is generated if
    there are named tokens for callers.

    Raises ConfigError if the token is too weak, or missing where one is needed.
    """
    if token is None:
        token = os.environ.get(TOKEN_VARIABLE) or None
    named = tuple(named)
    if token is None:
        return (new_token(), True) if all(each.monitoring for each in named) else (None, False)
    if token == "":
        refuse_open_server(named)
        if not is_loopback(host):
            raise ConfigError(f"an MCP server on {host} needs a token: others than this machine can reach it")
        return None, False
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"the token ({TOKEN_VARIABLE}) needs at least {MIN_TOKEN} printable characters, no spaces")
    return token, False


def refuse_open_server(named: Iterable[Token]) -> None:
    """Raise ConfigError if there are named tokens for a server that needs none."""
    if any(named):
        raise ConfigError('--token "" lets everybody in, and serve.tokens names who may call; remove one of them')
