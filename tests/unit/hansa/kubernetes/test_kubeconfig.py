"""The kubeconfig is read as kubectl reads it, and a wrong one is told in a sentence."""

import base64
import logging
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml
from kubernetes.config import incluster_config

from hansa.core.errors import InputError
from hansa.kubernetes import kubeconfig
from hansa.kubernetes.kubeconfig import Cluster, find_cluster


def config(name: str = "home", user: dict[str, Any] | None = None, **cluster: Any) -> Any:
    return {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/", **cluster}}],
        "users": [{"name": "u", "user": user or {"token": "abc"}}],
    }


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "KUBECONFIG",
        "KUBERNETES_SERVICE_HOST",
        "HTTPS_PROXY",
        "https_proxy",
        "NO_PROXY",
        "no_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def write(path: Path, document: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return str(path)


def authorization(cluster: Cluster) -> str | None:
    return cluster.api.configuration.get_api_key_with_prefix("BearerToken")


def pool(cluster: Cluster) -> urllib3.PoolManager:
    return cluster.api.rest_client.pool_manager


def test_the_option_wins_over_the_variable_and_that_over_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "home/.kube/config", config("home"))
    assert find_cluster().context == "home"
    monkeypatch.setenv("KUBECONFIG", write(tmp_path / "two", config("variable")))
    assert find_cluster().context == "variable"
    assert find_cluster(write(tmp_path / "three", config("option"))).context == "option"


def test_several_files_are_joined_and_the_first_entry_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = config("one"), config("two")
    two["clusters"][0]["cluster"]["server"] = "https://10.0.0.2"
    files = [write(tmp_path / "a", one), str(tmp_path / "missing"), write(tmp_path / "b", two)]
    monkeypatch.setenv("KUBECONFIG", ":".join(files))
    assert find_cluster().context == "one"
    found = find_cluster(context="two")
    assert (found.context, found.api.configuration.host) == ("two", "https://10.0.0.1:6443")


def test_namespace_token_and_server_come_from_the_context(tmp_path: Path) -> None:
    found = find_cluster(write(tmp_path / "a", config()))
    assert (found.api.configuration.host, found.namespace) == ("https://10.0.0.1:6443", "team")
    assert authorization(found) == "Bearer abc"


def test_basic_authentication_and_impersonation_are_headers(tmp_path: Path) -> None:
    user = {"username": "ann", "password": "x", "as": "bob"}
    found = find_cluster(write(tmp_path / "a", config(user=user)))
    assert authorization(found) == f"Basic {base64.b64encode(b'ann:x').decode()}"
    assert found.api.default_headers["Impersonate-User"] == "bob"


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
    found = find_cluster(write(tmp_path / "a", config(user=plugin(tmp_path, code % past))))
    assert authorization(found) == "Bearer ann2"
    plugin(tmp_path, code % future)
    assert [authorization(found), authorization(found)] == ["Bearer ann3", "Bearer ann3"]


@pytest.mark.parametrize(
    "code, sentence",
    [
        ("import sys; sys.exit('please log in')", "process returned 1. please log in"),
        ("print('hello')", "failed to decode process output"),
    ],
)
def test_a_plugin_that_fails_is_told_in_a_sentence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, code: str, sentence: str
) -> None:
    with pytest.raises(InputError, match=f"got no credentials from it .*{sentence}"):
        find_cluster(write(tmp_path / "a", config(user=plugin(tmp_path, code))))
    assert caplog.messages == []
    logging.getLogger().error("the next one is nobody's secret")
    assert len(caplog.messages) == 1


def test_a_plugin_that_is_not_installed_comes_with_its_own_hint(tmp_path: Path) -> None:
    user = plugin(tmp_path, "")
    user["exec"] |= {"command": "no-such-program", "installHint": "brew install it"}
    with pytest.raises(InputError, match="No such file") as found:
        find_cluster(write(tmp_path / "a", config(user=user)))
    assert found.value.hint == "brew install it"


def test_a_pod_finds_its_own_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Path(ssl.get_default_verify_paths().openssl_cafile)
    for name, text in (("token", "t1"), ("ca.crt", authority.read_text()), ("namespace", "hansa")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setattr(kubeconfig, "OWN_NAMESPACE", tmp_path / "namespace")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = find_cluster()
    assert (found.api.configuration.host, found.namespace) == ("https://[fd00::1]:443", "hansa")
    assert authorization(found) == "bearer t1"
    (tmp_path / "namespace").unlink()
    with pytest.raises(InputError, match=r"the Pod's own account: .*namespace"):
        find_cluster()


@pytest.mark.parametrize(
    "server, own, no_proxy, proxy",
    [
        ("https://10.0.0.1", "", "", "http://proxy:3128"),
        ("https://10.0.0.1", "", "10.0.0.0/8", ""),
        ("https://10.0.0.1", "", "example.com,10.0.0.1", ""),
        ("https://10.0.0.1", "", "*", ""),
        ("https://10.0.0.1", "", "example.com", "http://proxy:3128"),
        ("https://127.0.0.1:6443", "", "", ""),
        ("https://localhost:6443", "", "", ""),
        ("https://127.0.0.1:6443", "http://tunnel:1", "", "http://tunnel:1"),
    ],
)
def test_a_proxy_is_used_unless_the_address_is_excepted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    server: str,
    own: str,
    no_proxy: str,
    proxy: str,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    given = {"server": server, **({"proxy-url": own} if own else {})}
    used = pool(find_cluster(write(tmp_path / "a", config(**given)))).proxy
    assert (used.url if used else "") == proxy


def bad(**changes: Any) -> Any:
    return {**config(), **changes}


@pytest.mark.parametrize(
    "document, context, sentence",
    [
        (config(), "hom", "Expected object with name hom in"),
        (bad(**{"current-context": ""}), None, "got no current-context"),
        (bad(clusters=[]), None, "Expected object with name c in"),
        (config(user={"client-certificate-data": "QQ=="}), None, "PEM"),
        (config(user={"client-key": "nowhere"}), None, "File does not exist: .*nowhere"),
        (config(**{"certificate-authority-data": "QQ=="}), None, "X509|certificate|PEM"),
        ("just text", None, "kubeconfig: .*/a: "),
    ],
)
def test_a_wrong_kubeconfig_is_told_in_a_sentence(
    tmp_path: Path, document: Any, context: str | None, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence) as found:
        find_cluster(write(tmp_path / "a", document), context)
    assert found.value.hint


def test_no_kubeconfig_at_all_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"expected --kubeconfig, \$KUBECONFIG or"):
        find_cluster()
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    with pytest.raises(InputError, match="which is not a file"):
        find_cluster()


def test_without_the_package_the_sentence_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes.config", None)
    with pytest.raises(InputError, match="cannot connect to a cluster") as found:
        find_cluster()
    assert found.value.hint == "pip install 'hansa[cluster]'"


def test_secrets_are_not_in_what_an_error_shows(tmp_path: Path) -> None:
    found = find_cluster(write(tmp_path / "a", config(user={"token": "s3cr3t"})))
    assert "s3cr3t" not in repr(found)
