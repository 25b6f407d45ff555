import base64
from pathlib import Path

import pytest

from memdecay.classifier.errors import ConfigError
from memdecay.serving.api.app import create_app
from memdecay.serving.api.config import ServerConfig, check_host
from memdecay.serving.api.keys import add_key, load_keys
from tests.serving.api.conftest import HELLO, Tenants, bearer, chat, client_of
from tests.serving.fake_engine import FakeEngine


def test_key_stands_for_its_tenant(tenants: Tenants) -> None:
    assert tenants.keys.tenant_of(tenants.alice) == "alice"
    assert tenants.keys.tenant_of(tenants.bob) == "bob"


def test_file_holds_no_key(tenants: Tenants) -> None:
    text = tenants.path.read_text(encoding="utf-8")
    for key in (tenants.alice, tenants.bob):
        assert key not in text
        assert key.split("-", 2)[2] not in text


@pytest.mark.parametrize("change", [str.upper, lambda key: key + "x", lambda key: key[:-1] + "~"])
def test_altered_key_is_nobodys(tenants: Tenants, change: object) -> None:
    assert callable(change)
    assert tenants.keys.tenant_of(change(tenants.alice)) is None
    assert tenants.keys.tenant_of("") is None


def test_id_of_one_key_with_the_secret_of_another_is_nobodys(tenants: Tenants) -> None:
    secret = tenants.bob.split("-", 2)[2]
    mixed = "-".join([*tenants.alice.split("-", 2)[:2], secret])
    assert tenants.keys.tenant_of(mixed) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("keys = 3", r"expected \[\[keys\]\] entries"),
        ("[[keys]]\ntenant = 'a'\n", "entry 0 of"),
        ("[[keys", "is not TOML"),
        ("", "holds no API key"),
    ],
)
def test_damaged_file_of_keys_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_keys(path)


def test_missing_file_of_keys_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        load_keys(tmp_path / "none.toml")


def test_tenant_needs_a_plain_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a tenant's name has"):
        add_key(tmp_path / "keys.toml", 'al"ice')


def test_every_route_but_health_needs_a_key(engine: FakeEngine, tenants: Tenants) -> None:
    client = client_of(engine, keys=tenants.keys)
    paths = create_app(engine).openapi()["paths"]
    routes = [(method, path) for path, methods in paths.items() for method in methods]
    routes += [("get", path) for path in ("/", "/docs", "/openapi.json", "/nowhere")]
    for method, path in routes:
        response = client.request(method, path.replace("{session_id}", "s").replace("{name}", "m"))
        if path == "/health":
            assert response.status_code == 200
        else:
            assert response.status_code == 401, path
            assert response.json()["error"]["code"] == "invalid_api_key"
    assert not engine.requests


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_key_opens_the_routes(engine: FakeEngine, tenants: Tenants, scheme: str) -> None:
    headers = {"Authorization": f"{scheme} {tenants.alice}"}
    client = client_of(engine, keys=tenants.keys, headers=headers)
    assert chat(client).status_code == 200
    assert engine.requests[0].tenant == "alice"


def test_browser_gives_the_key_as_a_password(engine: FakeEngine, tenants: Tenants) -> None:
    client = client_of(engine, keys=tenants.keys)
    assert "Basic" in client.get("/").headers["www-authenticate"]
    pair = base64.b64encode(f"anyone:{tenants.bob}".encode()).decode()
    assert client.get("/", headers={"Authorization": f"Basic {pair}"}).status_code == 200


@pytest.mark.parametrize("value", ["Bearer nonsense", "Basic %%%", "Basic /w==", "Digest x", ""])
def test_senseless_credentials_are_refused(
    engine: FakeEngine, tenants: Tenants, value: str
) -> None:
    client = client_of(engine, keys=tenants.keys)
    assert client.get("/v1/models", headers={"Authorization": value}).status_code == 401


def test_tenant_sees_and_deletes_its_own_sessions_only(
    engine: FakeEngine, tenants: Tenants
) -> None:
    client = client_of(engine, keys=tenants.keys)
    body = {"model": "fake", "messages": HELLO, "session_id": "shared-name"}
    client.post("/v1/chat/completions", json=body, headers=bearer(tenants.alice))
    path = "/v1/sessions/shared-name"
    assert client.get(path, headers=bearer(tenants.bob)).status_code == 404
    assert client.delete(path, headers=bearer(tenants.bob)).status_code == 404
    assert client.get("/v1/sessions", headers=bearer(tenants.bob)).json()["data"] == []
    assert client.delete(path, headers=bearer(tenants.alice)).json()["deleted"] is True
    assert client.get(path, headers=bearer(tenants.alice)).status_code == 404


def test_server_without_keys_answers_to_local_names_only(engine: FakeEngine) -> None:
    client = client_of(engine)
    for host in ("127.0.0.1:8000", "localhost", "[::1]:8000"):
        assert client.get("/v1/models", headers={"Host": host}).status_code == 200
    response = client.get("/v1/models", headers={"Host": "evil.example:8000"})
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "host_not_allowed"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "server.example"])
def test_network_needs_keys(host: str) -> None:
    check_host(host, has_keys=True)
    with pytest.raises(ConfigError, match="--api-keys"):
        check_host(host, has_keys=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_this_machine_needs_none(host: str) -> None:
    check_host(host, has_keys=False)


@pytest.mark.parametrize(
    "name",
    ["max_body_bytes", "max_requests", "max_tenant_requests", "compress_tools", "send_timeout_s"],
)
def test_senseless_setting_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        ServerConfig(**{name: 0})


def test_negative_time_to_stop_is_refused() -> None:
    with pytest.raises(ValueError, match="shutdown_timeout_s"):
        ServerConfig(shutdown_timeout_s=-1)
