"""Tokens for trying things out on one machine: no identity provider, no account, no network.

The key lies in the user's data folder, readable by that user alone. Who can read it can make tokens, on the command
line as well as in a program, and a running server accepts them. Nothing of this reaches beyond the machine: a server
on another address is refused at start, and a request from another address is refused whatever token it carries.
"""

import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

import anyio.to_thread

from bascule.auth._addresses import is_loopback
from bascule.auth._jwt import ACCESS_TOKEN_TYPE, JWTAuth
from bascule.auth._provider import TokenRequest
from bascule.auth._reasons import refuse
from bascule.auth._scopes import BASE_SCOPES, scope_names
from bascule.context import Principal
from bascule.errors import AuthUnavailable, ConfigurationError, InputError
from bascule.settings import data_folder

__all__ = ["DevAuth"]

ISSUER = "bascule-dev"
ALGORITHM = "HS256"
KEY_BYTES = 32


class DevAuth:
    """Accepts the tokens that ``bascule auth token`` makes. For this machine only.

    Args:
        key_file: where the key is kept; ``dev-auth.key`` in the data folder by default. It is made when it is first
            needed.
        now: returns the time in seconds since the epoch.
    """

    name = "dev"

    def __init__(self, *, key_file: str | os.PathLike[str] | None = None, now: Callable[[], float] = time.time) -> None:
        self._key_file = None if key_file is None else Path(key_file)
        self._now = now
        self._key: bytes | None = None
        self._verifier: JWTAuth | None = None

    def authorization_servers(self) -> Sequence[str]:
        """Return nothing: no server gives out these tokens."""
        return ()

    def trusted_until(self, principal: Principal, now: float) -> float:
        """Return when the token expires."""
        return now if principal.expires_at is None else principal.expires_at

    def check_host(self, host: str) -> None:
        """Refuse an address that other machines can reach.

        Raises:
            ConfigurationError: ``host`` is not a loopback address.
        """
        if not is_loopback(host):
            raise ConfigurationError(
                f"DevAuth is for this machine only, and {host!r} can be reached from others. "
                "Listen on 127.0.0.1, or use JWTAuth."
            )

    def admit(self, request: TokenRequest) -> None:
        """Refuse a request that comes from another machine, or through a proxy.

        Raises:
            TokenInvalid: the client is not on this machine.
        """
        if request.client_host is None or not is_loopback(request.client_host) or request.forwarded:
            raise refuse(
                "not_local", "Development tokens are accepted from this machine only, and not through a proxy."
            )

    async def authenticate(self, token: str, request: TokenRequest) -> Principal:
        """Return the identity in the token.

        Raises:
            TokenInvalid: the token is not accepted, with the reason.
            AuthUnavailable: the key file cannot be used.
        """
        if self._verifier is None:
            try:
                key = await anyio.to_thread.run_sync(self._read_key)
            except ConfigurationError as error:
                raise AuthUnavailable(str(error)) from error
            self._verifier = JWTAuth(
                secret=key, issuer=ISSUER, audience=(ISSUER, None), algorithms=[ALGORITHM], name=self.name
            )
        return await self._verifier.authenticate(token, request)

    def mint(
        self, sub: str, scopes: Iterable[str] = BASE_SCOPES, ttl: float = 3600, *, audience: str | None = None
    ) -> str:
        """Return a token. The first time, the key file is read or made.

        Args:
            sub: whose token it is.
            scopes: what it allows.
            ttl: seconds until it expires.
            audience: the one resource it is good for, such as ``http://127.0.0.1:8000/mcp``; every server of this user
                on this machine by default.

        Raises:
            InputError: ``sub`` is empty or ``ttl`` is not positive.
            ConfigurationError: a scope cannot be a scope, or the key file cannot be used.
        """
        if not sub or not sub.isprintable():
            raise InputError(f"The subject {sub!r} is not a name. Example: me")
        if not 0 < ttl <= 365 * 86400:
            raise InputError(f"A token cannot live {ttl:g} s. Give 1 second to 365 days.")
        names = scope_names(scopes, where="scopes")
        from joserfc import jwt  # noqa: PLC0415 - heavy, and needed only where a token is made
        from joserfc.jwk import OctKey  # noqa: PLC0415

        now = int(self._now())
        claims = {
            "iss": ISSUER,
            "sub": sub,
            "aud": audience or ISSUER,
            "iat": now,
            "exp": now + max(1, int(ttl)),
            "jti": secrets.token_urlsafe(12),
            "client_id": "bascule-cli",
            "scope": " ".join(names),
        }
        header = {"alg": ALGORITHM, "typ": ACCESS_TOKEN_TYPE}
        return jwt.encode(header, claims, OctKey.import_key(self._read_key()), algorithms=[ALGORITHM])

    def _read_key(self) -> bytes:
        if self._key is None:
            self._key = _load_key(self._key_file or data_folder() / "dev-auth.key")
        return self._key


def _load_key(path: Path) -> bytes:
    """Return the key in ``path``; make one when there is none. Whoever comes first decides, for all processes."""
    try:
        if not path.exists():
            _make_key(path)
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            text = file.read(4 * KEY_BYTES)
    except OSError as error:
        raise ConfigurationError(f"The key file {path} cannot be used: {error.strerror}.") from error
    if stat.S_IMODE(status.st_mode) & 0o077 and os.name == "posix":
        raise ConfigurationError(f"The key file {path} can be read by others. Run: chmod 600 {path}")
    try:
        key = bytes.fromhex(text.decode("ascii").strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigurationError(f"The key file {path} does not contain a key. Remove it, and a new one is made.")
    return key


def _make_key(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Written aside and linked: the file is complete or absent, and a second process does not overwrite it.
    with NamedTemporaryFile(dir=path.parent, prefix=path.name) as draft:  # made with mode 0600
        draft.write(secrets.token_hex(KEY_BYTES).encode("ascii") + b"\n")
        draft.flush()
        os.fsync(draft.fileno())
        with suppress(FileExistsError):
            os.link(draft.name, path)
