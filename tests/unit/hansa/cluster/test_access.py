"""The kubeconfig is read as kubectl reads it, and a wrong one is told in a sentence."""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hansa.cluster import access
from hansa.cluster.access import find_access
from hansa.cluster.kubeconfig import read_kubeconfig
from hansa.errors import InputError


def config(name: str = "home", user: dict[str, Any] | None = None, **cluster: Any) -> Any:
    return {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/", **cluster}}],
        "users": [{"name": "u", "user": user or {"token": "abc"}}],
    }


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "https_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def write(path: Path, document: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_the_option_wins_over_the_variable_and_that_over_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "home/.kube/config", config("home"))
    assert find_access().context == "home"
    monkeypatch.setenv("KUBECONFIG", write(tmp_path / "two", config("variable")))
    assert find_access().context == "variable"
    assert find_access(write(tmp_path / "three", config("option"))).context == "option"


def test_several_files_are_joined_and_the_first_entry_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = config("one"), config("two")
    two["clusters"][0]["cluster"]["server"] = "https://10.0.0.2"
    files = [write(tmp_path / "a", one), str(tmp_path / "missing"), write(tmp_path / "b", two)]
    monkeypatch.setenv("KUBECONFIG", ":".join(files))
    assert find_access().context == "one"
    found = find_access(context="two")
    assert (found.context, found.server) == ("two", "https://10.0.0.1:6443")


def test_namespace_token_and_server_come_from_the_context(tmp_path: Path) -> None:
    found = find_access(write(tmp_path / "a", config()))
    assert (found.server, found.namespace) == ("https://10.0.0.1:6443", "team")
    assert found.headers() == {"Authorization": "Bearer abc"}


def test_files_are_relative_to_the_kubeconfig_and_data_wins(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/ca.crt").write_text("AUTHORITY")
    data = base64.b64encode(b"INLINE").decode()
    user = {"client-certificate": "nowhere", "client-certificate-data": data}
    given = config(user={**user, "client-key-data": data}, **{"certificate-authority": "ca.crt"})
    found = find_access(write(tmp_path / "conf/a", given))
    assert (found.authority, found.certificate, found.key) == (b"AUTHORITY", b"INLINE", b"INLINE")


def test_basic_authentication_and_impersonation_are_headers(tmp_path: Path) -> None:
    user = {"username": "ann", "password": "x", "as": "bob"}
    headers = find_access(write(tmp_path / "a", config(user=user))).headers()
    pair = base64.b64encode(b"ann:x").decode()
    assert headers == {"Authorization": f"Basic {pair}", "Impersonate-User": "bob"}


def plugin(tmp_path: Path, code: str) -> dict[str, Any]:
    file = tmp_path / "plugin.py"
    file.write_text(code)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(file)],
            "env": [{"name": "WHO", "value": "ann"}],
        }
    }


def test_a_credential_plugin_is_asked_when_its_token_has_expired(tmp_path: Path) -> None:
    count = tmp_path / "count"
    code = f"""
import json, os, pathlib
count = pathlib.Path({str(count)!r})
count.write_text(str(int(count.read_text() or 0) + 1) if count.exists() else "1")
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
status = {{"token": os.environ["WHO"] + count.read_text(), "expirationTimestamp": "%s"}}
print(json.dumps({{"apiVersion": asked["apiVersion"], "kind": "ExecCredential", "status": status}}))
"""
    past, future = "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"
    found = find_access(write(tmp_path / "a", config(user=plugin(tmp_path, code % past))))
    for number in (1, 2):
        found.renew()
        assert found.headers() == {"Authorization": f"Bearer ann{number}"}
    plugin(tmp_path, code % future)
    found.renew()
    found.renew()
    assert count.read_text() == "3"


@pytest.mark.parametrize(
    "code, sentence",
    [
        ("import sys; sys.exit('please log in')", "ended with 1: please log in"),
        ("print('hello')", "printed no ExecCredential"),
    ],
)
def test_a_plugin_that_fails_is_told_in_a_sentence(
    tmp_path: Path, code: str, sentence: str
) -> None:
    found = find_access(write(tmp_path / "a", config(user=plugin(tmp_path, code))))
    with pytest.raises(InputError, match=sentence):
        found.renew()


def test_a_plugin_that_is_not_installed_comes_with_its_own_hint(tmp_path: Path) -> None:
    user = {"exec": {"command": "no-such-program", "installHint": "brew install it"}}
    with pytest.raises(InputError, match="No such file") as found:
        find_access(write(tmp_path / "a", config(user=user))).renew()
    assert found.value.hint == "brew install it"


def test_a_pod_finds_its_own_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("token", "t1"), ("ca.crt", "CA"), ("namespace", "hansa")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(access, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = find_access()
    assert (found.server, found.namespace) == ("https://[fd00::1]:443", "hansa")
    found.renew()
    assert found.headers() == {"Authorization": "Bearer t1"}


@pytest.mark.parametrize(
    "no_proxy, proxy",
    [
        ("", "http://proxy:3128"),
        ("10.0.0.0/8", ""),
        ("example.com,10.0.0.1", ""),
        ("*", ""),
        ("example.com", "http://proxy:3128"),
    ],
)
def test_a_proxy_is_used_unless_the_address_is_excepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_proxy: str, proxy: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert find_access(write(tmp_path / "a", config())).proxy == proxy


def bad(**changes: Any) -> Any:
    return {**config(), **changes}


@pytest.mark.parametrize(
    "document, context, sentence",
    [
        (config(), "hom", "got context 'hom', which is not in it"),
        (bad(**{"current-context": ""}), None, "got no current-context"),
        (bad(clusters=[]), None, "got cluster 'c'"),
        (bad(clusters=[{"name": "c", "cluster": {"server": "nowhere"}}]), None, "server: got"),
        (config(user={"auth-provider": {}}), None, "auth-provider is no longer supported"),
        (config(user={"client-key-data": "%%"}), None, "client-key-data: got something else"),
        (config(user={"client-key": "nowhere"}), None, "nowhere: No such file"),
        ("just text", None, "got no kubeconfig"),
    ],
)
def test_a_wrong_kubeconfig_is_told_in_a_sentence(
    tmp_path: Path, document: Any, context: str | None, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        find_access(write(tmp_path / "a", document), context)


def test_no_kubeconfig_at_all_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_kubeconfig() is None
    with pytest.raises(InputError, match=r"expected --kubeconfig, \$KUBECONFIG or"):
        find_access()
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    with pytest.raises(InputError, match="which is no file"):
        find_access()


def test_secrets_are_not_in_what_an_error_shows(tmp_path: Path) -> None:
    found = find_access(write(tmp_path / "a", config(user={"token": "s3cr3t"})))
    assert "s3cr3t" not in repr(found)
    assert json.dumps(found.server)
