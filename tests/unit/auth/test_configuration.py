"""What is refused when it is configured, before any request."""

import json
import subprocess
import sys
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from bascule.auth import Auth, DevAuth, JWTAuth, require_scopes
from bascule.errors import ConfigurationError
from tests.unit.auth.kit import BASE, ISSUER, SECRET, App, guard, jwk, jwk_set, jwt_auth, key


def pem() -> bytes:
    return key().public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize(
    "missing", [{}, {"algorithms": ["RS256"]}, {"issuer": ISSUER}, {"audience": BASE, "issuer": ISSUER}]
)
def test_issuer_and_algorithms_cannot_be_forgotten(missing: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        JWTAuth(key=jwk_set(key()), **missing)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": None}, "exactly one"),
        ({"secret": SECRET}, "exactly one"),
        ({"jwks_url": "https://issuer.example/jwks"}, "exactly one"),
        ({"issuer": ""}, "issuer"),
        ({"issuer": []}, "issuer"),
        ({"issuer": [ISSUER, ""]}, "issuer"),
        ({"audience": ""}, "audience"),
        ({"audience": []}, "audience"),
        ({"audience": [""]}, "audience"),
        ({"audience": [None, ""]}, "audience"),
        ({"typ": []}, "typ"),
        ({"algorithms": []}, "algorithms"),
        ({"algorithms": "RS256"}, "algorithms"),
        ({"algorithms": ["RS256", "none"]}, "none"),
        ({"algorithms": ["None"]}, "None"),
        ({"algorithms": ["RS257"]}, "RS257"),
        ({"algorithms": ["RS256", "HS256"]}, "HS256"),
        ({"key": None, "secret": SECRET}, "RS256"),
        ({"key": None, "secret": SECRET, "algorithms": ["HS256", "RS256"]}, "RS256"),
        ({"key": None, "secret": SECRET, "algorithms": ["none"]}, "none"),
        ({"key": {"keys": []}}, "no public key"),
        ({"key": jwk_set(key()), "algorithms": ["ES256"]}, "no public key"),
        ({"key": jwk(key()), "algorithms": ["ES256"]}, "does not fit"),
        ({"key": {"kty": "oct", "k": "AAAA"}}, "not a public key"),
        ({"key": {}}, "does not fit"),
        ({"key": "not a key"}, "not a public key"),
        ({"key": b"\xff"}, "not a public key"),
        ({"key": pem(), "algorithms": ["RS256", "ES256"]}, "ES256"),
    ],
)
def test_d04_d70_settings_under_which_anyone_could_pass_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        jwt_auth(**changes)


@pytest.mark.parametrize(("alg", "size"), [("HS256", 31), ("HS384", 47), ("HS512", 63), ("HS256", 0)])
def test_d70_a_short_secret_is_refused(alg: str, size: int) -> None:
    with pytest.raises(ConfigurationError, match=f"has {size} bytes and needs {size + 1 if size else 32}"):
        jwt_auth(key=None, secret="x" * size, algorithms=[alg])
    assert jwt_auth(key=None, secret="x" * (size + 1 if size else 32), algorithms=[alg]).name == "jwt"


@pytest.mark.parametrize("secret", [pem(), pem().decode(), json.dumps(jwk(key()))])
def test_d04_a_public_key_as_secret_is_refused(secret: str | bytes) -> None:
    with pytest.raises(ConfigurationError, match="key="):
        jwt_auth(key=None, secret=secret, algorithms=["HS256"])


def test_d04_a_public_key_in_der_as_secret_is_refused() -> None:
    der = key().public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(ConfigurationError, match="key="):
        jwt_auth(key=None, secret=der, algorithms=["HS256"])


def test_d70_short_and_private_keys_are_refused() -> None:
    short = key("short", "RSA", 1024)
    for given in (
        jwk(short),
        jwk_set(short),
        short.public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    ):
        with pytest.raises(ConfigurationError):
            jwt_auth(key=given)
    private: Any = key().private_key
    with pytest.raises(ConfigurationError, match="private key"):
        jwt_auth(key=private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(ConfigurationError, match="not a public key"):
        jwt_auth(key=key().as_dict(private=True))


def test_secrets_do_not_show() -> None:
    provider = jwt_auth(key=None, secret=SECRET, algorithms=["HS256"])
    assert SECRET not in repr(provider) + str(provider) + repr(guard(provider))
    with pytest.raises(ConfigurationError) as caught:
        jwt_auth(key=None, secret=SECRET[:20], algorithms=["HS256"])
    assert SECRET[:20] not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.example/jwks",
        "ftp://issuer.example/jwks",
        "file:///etc/passwd",
        "issuer.example/jwks",
        "",
        "https://",
        "https://user:pw@issuer.example/jwks",
        "https://issuer.example/jwks#x",
        "https://issuer.example/jw ks",
        "https://issuer.example/\r\nx",
        "https://127.0.0.1.evil.test@10.0.0.1/jwks",
        "http://127.0.0.1.evil.test/jwks",
        "http://localhost.evil.test/jwks",
        "http://0.0.0.0/jwks",
        "https://10.0.0.1/jwks",
        "https://192.168.1.1/jwks",
        "https://172.16.0.1/jwks",
        "https://169.254.169.254/latest",
        "https://100.64.0.1/jwks",
        "https://[fe80::1]/jwks",
        "https://[fd00::1]/jwks",
        "https://[::ffff:10.0.0.1]/jwks",
        "https://[64:ff9b::10.0.0.1]/jwks",
        "https://[2002:a00:1::]/jwks",
        "https://0.0.0.0/jwks",
        "https://224.0.0.1/jwks",
    ],
)
def test_keys_are_not_fetched_from_everywhere(url: str) -> None:
    with pytest.raises(ConfigurationError):
        jwt_auth(key=None, jwks_url=url)


@pytest.mark.parametrize(
    "url",
    ["https://issuer.example/jwks", "https://8.8.8.8/jwks", "http://127.0.0.1:9000/jwks", "http://localhost/jwks",
     "http://[::1]:9000/jwks", "https://localhost/jwks"],
)  # fmt: skip
def test_keys_are_fetched_over_https_or_from_this_machine(url: str) -> None:
    assert jwt_auth(key=None, jwks_url=url).name == "jwt"


def test_a_private_network_has_to_be_allowed() -> None:
    assert jwt_auth(key=None, jwks_url="https://10.0.0.1/jwks", private_network=True).name == "jwt"
    with pytest.raises(ConfigurationError):
        jwt_auth(key=None, jwks_url="http://10.0.0.1/jwks", private_network=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"base_url": "tools.example.org"},
        {"base_url": "/mcp"},
        {"base_url": "ftp://x"},
        {"base_url": "https://user@x"},
        {"base_url": "https://x?y"},
        {"base_url": "https://x#y"},
        {"base_url": 'https://x/"'},
        {"base_url": "https://x/é"},
        {"base_url": "https://"},
        {"base_url": ""},
        {"resources": "/mcp"},
        {"resources": []},
        {"resources": {}},
        {"resources": ["mcp"]},
        {"resources": ["/mcp?x"]},
        {"resources": ['/m"cp']},
        {"resources": {"/mcp": ["two words"]}},
        {"required_scopes": "mcp:tools"},
        {"required_scopes": ['quo"te']},
        {"required_scopes": [""]},
        {"required_scopes": ["line\n"]},
        {"required_scopes": ["offline_access"]},
        {"scopes_supported": ["offline_access"]},
        {"public": ["healthz"]},
        {"public": ["get /healthz"]},
        {"leeway": -1},
        {"leeway": 301},
        {"leeway": float("nan")},
    ],
)
def test_a_layer_that_cannot_work_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        guard(**changes)


def test_a_path_that_is_none_is_refused_when_the_app_is_protected() -> None:
    with pytest.raises(ConfigurationError, match="'mcp'"):
        guard().protect(App(), path="mcp")
    with pytest.raises(ConfigurationError, match="base_url"):
        guard(base_url=None).protect(App(), base_url="nowhere")


def test_a_bad_base_url_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASCULE_BASE_URL", "nowhere")
    with pytest.raises(ConfigurationError, match="nowhere"):
        Auth(DevAuth()).protect(App())


def test_scopes_of_a_check_are_checked() -> None:
    with pytest.raises(ConfigurationError):
        require_scopes()
    with pytest.raises(ConfigurationError):
        require_scopes("two words")


def test_importing_auth_loads_nothing_heavy() -> None:
    heavy = ["jwt", "httpx", "starlette", "joserfc", "authlib", "cryptography", "pydantic", "mcp", "uvicorn", "ssl"]
    program = f"import sys, bascule.auth; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
