"""What stands between an adapter and its server: TLS, and proxies."""

import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import anyio
import anyio.abc
import pytest
from anyio.streams.tls import TLSListener
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from bascule.errors import ModelError
from bascule.messages import normalize
from bascule.models import ModelCall, ModelPart, OpenAIChat, TextDelta
from tests.integration.models.loopback import LoopbackServer, Reply, answer, running_server, said, sse

CALL = ModelCall(messages=normalize("hi"))


async def collect(model: OpenAIChat) -> list[ModelPart]:
    with anyio.fail_after(5):
        return [part async for part in model.stream(CALL)]


def _certificate(folder: Path) -> Path:
    """Write a key and a certificate for 127.0.0.1 that vouches for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    path = folder / "server.pem"
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(secret + made.public_bytes(Encoding.PEM))
    return path


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a certificate that connections of models trust."""
    path = _certificate(tmp_path)
    monkeypatch.setattr("bascule.models._http._tls", [ssl.create_default_context(cafile=str(path))])
    return path


@pytest.fixture
async def secure(trusted: Path) -> AsyncIterator[LoopbackServer]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(trusted)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    server = LoopbackServer(port=listener.extra(anyio.abc.SocketAttribute.local_port))
    async with (
        TLSListener(listener, context, standard_compatible=False) as listening,
        anyio.create_task_group() as group,
    ):
        group.start_soon(listening.serve, server.serve)
        yield server
        group.cancel_scope.cancel()


async def test_an_answer_comes_over_tls(secure: LoopbackServer) -> None:
    model = OpenAIChat("m-1", base_url=f"https://127.0.0.1:{secure.port}/v1", api_key="k")
    secure.replies.extend([Reply(pieces=[sse(said("Good"), done=False), sse(said("bye", "stop"))]), answer()])

    first, second = await collect(model), await collect(model)
    await model.aclose()

    assert first[:2] == [TextDelta("Good"), TextDelta("bye")]
    assert second[0] == TextDelta("ok")
    assert secure.connections == 1


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    secure: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bascule.models._http._tls", [ssl.create_default_context()])
    model = OpenAIChat("m-1", base_url=f"https://127.0.0.1:{secure.port}/v1", api_key="k", max_retries=0)

    with pytest.raises(ModelError, match="Cannot reach") as caught:
        await collect(model)
    await model.aclose()

    assert caught.value.kind == "connection"


async def test_a_proxy_in_the_environment_is_used_except_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_server() as proxy, running_server() as local:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        proxy.replies.append(answer())
        local.replies.append(answer())
        models = [OpenAIChat("m-1", base_url=url) for url in ("http://models.test/v1", local.url)]

        for model in models:
            assert (await collect(model))[0] == TextDelta("ok")
            await model.aclose()

    assert [seen.path for seen in proxy.requests] == ["http://models.test/v1/chat/completions"]
    assert [seen.path for seen in local.requests] == ["/v1/chat/completions"]
