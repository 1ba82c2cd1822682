"""Who is calling, and what may they do: one layer over everything that is served."""

from bascule.auth._addresses import is_loopback
from bascule.auth._asgi import PRINCIPAL_KEY, ASGIApp, principal_of
from bascule.auth._auth import Auth
from bascule.auth._dev import DevAuth
from bascule.auth._identity import Mismatch, current_principal, owner_of, principal_id, resolve_resource_id
from bascule.auth._jwt import JWTAuth
from bascule.auth._provider import AuthProvider, LocalOnly, TokenRequest
from bascule.auth._reasons import REASONS, Reason, refuse
from bascule.auth._refusal import Refusal, refusal
from bascule.auth._scopes import BASE_SCOPES, ScopeCheck, require_scopes
from bascule.context import ANONYMOUS, LOCAL, Principal

__all__ = [
    "ANONYMOUS",
    "ASGIApp",
    "Auth",
    "AuthProvider",
    "BASE_SCOPES",
    "DevAuth",
    "JWTAuth",
    "LOCAL",
    "LocalOnly",
    "Mismatch",
    "PRINCIPAL_KEY",
    "Principal",
    "REASONS",
    "Reason",
    "Refusal",
    "ScopeCheck",
    "TokenRequest",
    "current_principal",
    "is_loopback",
    "owner_of",
    "principal_id",
    "principal_of",
    "refusal",
    "refuse",
    "require_scopes",
    "resolve_resource_id",
]
