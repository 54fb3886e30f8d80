"""Which cluster to speak to, and as whom: found by the official client, where kubectl looks.

`kubernetes` takes 0.2 s to import, so only what speaks to a cluster imports it. Where its
loader differs from kubectl, this module corrects it; each place says how.
"""

import logging
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hansa.core.errors import InputError
from hansa.version import __version__

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, Configuration
    from kubernetes.config.kube_config import KubeConfigMerger

OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
LOOPBACK = "localhost,127.0.0.0/8,::1"
"""Addresses that no proxy of the environment can reach; kubectl goes there directly, too."""


class NoCluster(InputError):
    """Nothing here says which cluster to speak to, or how."""


class Cluster(NamedTuple):
    """One API server, and who we are to it."""

    api: "ApiClient"
    """The official client: addresses, TLS, proxies, credentials and their renewal."""
    namespace: str = "default"
    """Namespace of the context, or of the Pod."""
    context: str = ""
    """Name of the kubeconfig's context; empty in a Pod."""


def find_cluster(
    kubeconfig: str | None = None, context: str | None = None, *, pool_size: int = 4
) -> Cluster:
    """The cluster that kubectl would speak to from here; a sentence when there is none."""
    try:
        import kubernetes.config  # noqa: F401
    except ImportError as error:
        raise NoCluster(
            f"cannot connect to a cluster ({error})", hint="pip install 'hansa[cluster]'"
        ) from error
    named = kubeconfig or os.environ.get("KUBECONFIG")
    files = (named or "~/.kube/config").split(os.pathsep)
    if any(Path(file).expanduser().is_file() for file in files if file):
        return _read_kubeconfig(os.pathsep.join(files), context, pool_size)
    if named:
        source = "--kubeconfig" if kubeconfig else "$KUBECONFIG"
        raise InputError(f"{source}: got {named}, which is not a file")
    if context is None and "KUBERNETES_SERVICE_HOST" in os.environ:
        return _read_own_account(pool_size)
    raise NoCluster(
        "kubeconfig: got none, expected --kubeconfig, $KUBECONFIG or ~/.kube/config",
        hint="`kubectl config view` shows what kubectl uses; a run on this machine is named by its "
        "folder, as in `hansa status runs/demo`",
    )


def _read_own_account(pool_size: int) -> Cluster:
    """A Pod's own ServiceAccount, whose token is read again every minute."""
    from kubernetes.client import Configuration
    from kubernetes.config import load_incluster_config

    configuration = Configuration()
    with _explain_errors("the Pod's own account"):
        load_incluster_config(client_configuration=configuration)
        _bypass_proxy(configuration)
        return Cluster(make_api(configuration, pool_size), OWN_NAMESPACE.read_text().strip())


def _read_kubeconfig(paths: str, context: str | None, pool_size: int) -> Cluster:
    from kubernetes.client import Configuration
    from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

    configuration = Configuration()
    with _explain_errors(f"kubeconfig: {paths}"), _capture_errors() as errors:
        merged = KubeConfigMerger(paths)
        # Of several files the first decides, as in kubectl; the merger takes the last.
        current = (file.get("current-context") for file in merged.config_files.values())
        name = context or next(filter(None, current), "")
        if not name:
            raise InputError(f"kubeconfig: {paths}: got no current-context", hint="--context NAME")
        loader = KubeConfigLoader(merged.config, active_context=name, config_base_path=None)
        loader.load_and_set(configuration)
        chosen = loader.current_context["context"]
        user = _find_entry(merged, "user", chosen.get("user"))
        _require_credentials(user, configuration, errors)
        # kubectl takes the cluster's own proxy for every address.
        if not _find_entry(merged, "cluster", chosen["cluster"]).get("proxy-url"):
            _bypass_proxy(configuration)
        api = make_api(configuration, pool_size)
    if user.get("as"):  # the loader would act with all rights of the user instead
        api.set_default_header("Impersonate-User", str(user["as"]))
    return Cluster(api, chosen.get("namespace") or "default", name)


def make_api(configuration: "Configuration", pool_size: int = 4) -> "ApiClient":
    """A client that does not retry on its own and notices dead connections."""
    import urllib3
    from kubernetes.client import ApiClient

    configuration.retries = False
    configuration.proxy = configuration.proxy  # or the environment is read with every request
    configuration.keep_alive = True
    configuration.connection_pool_maxsize = pool_size
    if not configuration.verify_ssl:  # the user asked for it
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    api = ApiClient(configuration)
    api.user_agent = f"hansa/{__version__}"
    if configuration.host.startswith("https:"):
        # Read once: urllib3 would add the files to the shared context with every connection.
        files = dict.fromkeys(("ca_certs", "cert_file", "key_file"))
        tls = {"ssl_context": _make_tls(configuration), **files}
        api.rest_client.pool_manager.connection_pool_kw.update(tls)
    return api


def _make_tls(configuration: "Configuration") -> ssl.SSLContext:
    """TLS without X509_STRICT: Python 3.13 refuses certificates without a key identifier, and
    EKS, microk8s and others have such (kubernetes-client/python#2394)."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context


def _bypass_proxy(configuration: "Configuration") -> None:
    configuration.no_proxy = f"{configuration.no_proxy or ''},{LOOPBACK}"


# -- entries of the kubeconfig --------------------------------------------------------------------


def _find_entry(merged: "KubeConfigMerger", kind: str, name: str | None) -> dict[str, Any]:
    """One cluster or user; nothing where the context names none."""
    entry = merged.config[f"{kind}s"].get_with_name(name, safe=True)
    return dict(entry[kind].value) if entry else {}


def _require_credentials(
    user: dict[str, Any], configuration: "Configuration", errors: list[str]
) -> None:
    """Refuse to continue without credentials after a plugin failed, which the loader only logs."""
    plugin = user.get("exec")
    if not plugin or configuration.api_key or configuration.cert_file:
        return
    # In a terminal the plugin has printed its error already, and the loader fails on that.
    why = [text for text in errors if "NoneType" not in text]
    raise InputError(
        f"kubeconfig: {plugin.get('command')}: got no credentials from it"
        + (f" ({why[-1]})" if why else ""),
        hint=str(plugin.get("installHint") or "log in again the way your provider asks for"),
    )


@contextmanager
def _capture_errors() -> Iterator[list[str]]:
    """Messages that are logged meanwhile, kept here instead."""
    messages: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        messages.append(record.getMessage())
        return False

    logging.getLogger().addFilter(keep)
    try:
        yield messages
    finally:
        logging.getLogger().removeFilter(keep)


@contextmanager
def _explain_errors(where: str) -> Iterator[None]:
    """Any failure as a sentence: the loader raises whatever a wrong document leads to."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        hint = "`kubectl config view` shows what kubectl makes of it"
        raise InputError(f"{where}: {error}", hint=hint) from error
