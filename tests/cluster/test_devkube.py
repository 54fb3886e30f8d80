"""devkube is a Kubernetes: it runs Jobs, keeps rights apart, heals, and goes without a trace."""

import subprocess
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.request import urlopen

import pytest

from tests.cluster.audit import entries
from tests.cluster.kube import Cluster, Manifest, make_pod
from tests.support.processes import kill

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

API = "https://kubernetes.default.svc.cluster.local"


def test_a_job_runs_a_local_image_and_its_log_can_be_read(cluster: Cluster) -> None:
    pod = make_pod("any", "say", "hello from a Pod")["spec"]
    job = {"backoffLimit": 0, "template": {"spec": pod}}
    cluster.apply(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "hello"}, "spec": job}
    )
    cluster.until(
        lambda: cluster.get("job", "hello").get("status", {}).get("succeeded") == 1, "the Job"
    )
    assert cluster.kubectl("logs", "job/hello").stdout == "hello from a Pod\n"


def test_a_command_can_be_run_in_a_pod(cluster: Cluster) -> None:
    cluster.apply(make_pod("sleeper", "sleep"))
    cluster.until(lambda: cluster.phase("sleeper") == "Running", "the Pod runs")
    assert cluster.kubectl("exec", "sleeper", "--", "/program", "say", "hi").stdout == "hi\n"


def test_a_service_account_may_do_what_its_role_says_and_no_more(cluster: Cluster) -> None:
    own = f"system:serviceaccount:{cluster.namespace}:reader"
    for args in (
        ("serviceaccount", "reader"),
        ("role", "reader", "--verb=list", "--resource=pods"),
        ("rolebinding", "reader", "--role=reader", f"--serviceaccount={own.split(':', 2)[2]}"),
    ):
        assert cluster.kubectl("create", *args).returncode == 0
    answers = {}
    for kind in ("pods", "secrets"):
        url = f"{API}/api/v1/namespaces/{cluster.namespace}/{kind}"
        cluster.apply(make_pod(f"reads-{kind}", "get", url, serviceAccountName="reader"))
        answers[kind] = cluster.finished(f"reads-{kind}")
    assert answers["pods"].startswith("200 "), answers
    assert answers["secrets"].startswith("403 "), answers
    assert f'User \\"{own}\\" cannot list resource \\"secrets\\"' in answers["secrets"]


def test_a_claim_gets_a_volume_that_any_user_can_write_to_and_that_goes_with_it(
    cluster: Cluster,
) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": "data"}
    cluster.apply(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim}
    )
    for pod, words in (
        ("writes", ("write", "/data/kept", "kept")),
        ("reads", ("read", "/data/kept")),
    ):
        asked = make_pod(
            pod,
            *words,
            securityContext={"runAsUser": 65532, "fsGroup": 65532},
            volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        )
        asked["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        cluster.apply(asked)
        assert cluster.finished(pod) == "kept"
    volume = cluster.get("pvc", "data")["spec"]["volumeName"]
    cluster.kubectl("delete", "pod", "writes", "reads", "--now")
    assert cluster.kubectl("delete", "pvc", "data").returncode == 0
    cluster.until(lambda: not cluster.get("pv", volume), "the volume is gone")


def test_the_audit_log_has_what_accounts_ask_for_and_every_change_of_a_job(
    cluster: Cluster,
) -> None:
    pod = make_pod("any", "say", "hello")["spec"]
    job = {"template": {"spec": pod}}
    cluster.apply(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}, "spec": job}
    )
    cluster.apply(make_pod("asks", "get", f"{API}/api/v1/namespaces"))
    assert cluster.finished("asks").startswith("403 ")
    heard = [e for e in entries(cluster) if _is_in(e, cluster.namespace)]
    made = [e for e in heard if e["verb"] == "create" and e["objectRef"]["resource"] == "jobs"]
    assert [e["objectRef"]["name"] for e in made] == ["once"]
    account = f"system:serviceaccount:{cluster.namespace}:default"
    assert account in {e["user"]["username"] for e in heard}


def _is_in(entry: Manifest, namespace: str) -> bool:
    """Whether an audited request is about a namespace, or by one of its accounts."""
    about = entry.get("objectRef", {}).get("namespace")
    return namespace in (about, *entry["user"]["username"].split(":"))


def test_a_pod_waits_for_a_gpu_until_the_node_has_one(cluster: Cluster) -> None:
    assert cluster.script("gpus", "0").returncode == 0
    cluster.apply(make_pod("trainer", "say", "trained", limits={"nvidia.com/gpu": 1}))
    cluster.until(lambda: "Insufficient nvidia.com/gpu" in _events(cluster), "it waits")
    assert cluster.phase("trainer") == "Pending"
    assert cluster.script("gpus", "2").returncode == 0
    assert cluster.finished("trainer") == "trained"


def _events(cluster: Cluster) -> str:
    return cluster.kubectl("get", "events").stdout


def test_pods_find_each_other_by_the_name_of_a_service(cluster: Cluster) -> None:
    server = make_pod("server", "serve", ":8080", "found")
    server["metadata"]["labels"] = {"app": "server"}
    cluster.apply(server, _service("web"), _service("bare", clusterIP="None"))
    cluster.until(lambda: cluster.phase("server") == "Running", "the server runs")
    for service, port in (("web", 80), ("bare", 8080)):
        cluster.until(partial(_has_endpoint, cluster, service), "the Service has an address")
        cluster.apply(make_pod(f"asks-{service}", "get", f"http://{service}:{port}/"))
        assert cluster.finished(f"asks-{service}") == "200 found"


def test_the_machine_reaches_services_by_address_and_pods_reach_the_machine(
    cluster: Cluster,
) -> None:
    server = make_pod("server", "serve", ":8080", "found")
    server["metadata"]["labels"] = {"app": "server"}
    cluster.apply(server, _service("web"))
    cluster.until(partial(_has_endpoint, cluster, "web"), "the Service has an address")
    address = cluster.get("service", "web")["spec"]["clusterIP"]
    cluster.until(lambda: _answer(f"http://{address}/") == "found", "the Service answers")
    node = cluster.get("pod", "server")["status"]["hostIP"]
    machine = node.rpartition(".")[0] + ".1"
    with HTTPServer((machine, 0), _Hello) as own:
        Thread(target=own.serve_forever, daemon=True).start()
        cluster.apply(make_pod("asks", "get", f"http://{machine}:{own.server_port}/"))
        assert cluster.finished("asks") == "200 from outside"
        own.shutdown()


class _Hello(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"from outside")


def _answer(url: str) -> str:
    try:
        with urlopen(url, timeout=5) as response:  # noqa: S310
            return str(response.read().decode().strip())
    except OSError:
        return ""


def _service(name: str, **fields: Any) -> dict[str, Any]:
    spec = {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 8080}], **fields}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def _has_endpoint(cluster: Cluster, service: str) -> bool:
    slices = cluster.kubectl(
        "get", "endpointslices", "-l", f"kubernetes.io/service-name={service}", "-o", "yaml"
    )
    return "ready: true" in slices.stdout


def test_no_packet_of_a_pod_leaves_the_machine(cluster: Cluster) -> None:
    cluster.apply(make_pod("outside", "get", "http://192.0.2.200/"))
    assert "unreachable" in cluster.finished("outside")


def _policy(*ports: dict[str, Any]) -> dict[str, Any]:
    """A policy that lets everybody reach these ports of the server, and no others."""
    chosen = {"matchLabels": {"app": "server"}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "server"},
        "spec": {"podSelector": chosen, "ingress": [{"ports": list(ports)}]},
    }


def test_a_network_policy_opens_ports_by_number_and_range_and_none_by_name(
    cluster: Cluster,
) -> None:
    server = make_pod("server", "serve", ":8080", "found")
    server["metadata"]["labels"] = {"app": "server"}
    cluster.apply(server, make_pod("asks", "sleep"))
    for pod in ("server", "asks"):
        cluster.until(lambda pod=pod: cluster.phase(pod) == "Running", f"{pod} runs")
    url = f"http://{cluster.get('pod', 'server')['status']['podIP']}:8080/"

    def answer() -> str:
        return cluster.kubectl("exec", "asks", "--", "/program", "get", url).stdout

    for ports, words in (
        ([{"port": 80}], "no route to host"),
        ([{"port": 8000, "endPort": 8100}], "200 found"),
        ([{"port": "web"}], "no route to host"),
        ([{"port": 80}, {"port": 8080}], "200 found"),
        ([{"port": 8080, "protocol": "UDP"}], "no route to host"),
    ):
        cluster.apply(_policy(*ports))
        cluster.until(lambda words=words: words in answer(), f"{ports}: {words}")
    assert cluster.kubectl("delete", "networkpolicy", "server").returncode == 0
    cluster.until(lambda: "200 found" in answer(), "without a policy it is open")


@pytest.mark.parametrize("part", ["etcd", "kube-apiserver", "kubelet", "containerd"])
def test_a_part_that_is_killed_comes_back_and_pods_live_on(cluster: Cluster, part: str) -> None:
    cluster.apply(make_pod("sleeper", "sleep"))
    cluster.until(lambda: cluster.phase("sleeper") == "Running", "the Pod runs")
    before = int(cluster.script("pid", part).stdout)
    kill(before)
    cluster.until(
        lambda: cluster.script("pid", part).stdout not in ("", f"{before}\n"), "a new one"
    )
    cluster.until(lambda: cluster.script("up").returncode == 0, "the cluster is ready")
    cluster.apply(make_pod("next", "say", "still here"))
    assert cluster.finished("next") == "still here"
    sleeper = cluster.get("pod", "sleeper")["status"]["containerStatuses"][0]
    assert (sleeper["restartCount"], "running" in sleeper["state"]) == (0, True)


def test_a_second_cluster_beside_the_first_goes_without_a_trace(
    cluster: Cluster, probe: bytes, tmp_path: Path
) -> None:
    before = _traces(tmp_path)
    second = Cluster(state=str(tmp_path / "second"))
    try:
        started = second.script("up")
        assert started.returncode == 0, started.stderr
        assert second.script("load-image", "-", stdin=probe).returncode == 0
        second.apply(make_pod("sleeper", "sleep"))
        second.until(lambda: second.phase("sleeper") == "Running", "the Pod runs")
        own = _namespaces(int(second.script("pid", "node").stdout))
        assert len(_processes_in(own)) > 8
        assert _traces(tmp_path) != before
    finally:
        ended = second.script("down")
    assert ended.returncode == 0, ended.stderr
    assert _traces(tmp_path) == before
    assert _processes_in(own) == []
    assert not (tmp_path / "second").exists()
    assert cluster.get("serviceaccount", "default"), "the first cluster lives on"


def _namespaces(pid: int | str) -> set[str]:
    """The kernel's names of the process, mount and network namespaces that a process lives in."""
    try:
        return {str(Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in ("pid", "mnt", "net")}
    except OSError:
        return set()


def _processes_in(namespaces: set[str]) -> list[str]:
    pids = [each.name for each in Path("/proc").iterdir() if each.name.isdigit()]
    return [pid for pid in pids if _namespaces(pid) & namespaces]


def _traces(folder: Path) -> dict[str, str]:
    """What a cluster could leave on the machine, besides processes.

    Tests that run beside these mount things in their own folders, which are beside `folder`'s.
    """
    own = folder.parent
    counts = f'index($5, "{own}/") == 1 || index($5, "{own.parent}/") != 1'
    commands = {
        "mounts": f"awk '{counts} {{ print $5 }}' /proc/self/mountinfo | sort",
        "interfaces": "ip -o link | cut -d: -f2 | sort",
        "routes": "ip route | sort",
        "rules": "iptables-save | grep -v '^#'",
        "groups": "find /sys/fs/cgroup -maxdepth 2 -name 'devkube*' | sort",
        "settings": "cd /proc/sys; grep . kernel/panic* net/ipv4/ip_forward vm/overcommit_memory",
        "folders": "ls -d /var/lib/kubelet /var/lib/cni /var/log/pods /run/containerd",
    }
    run = subprocess.run
    return {
        what: run(["bash", "-c", line], capture_output=True, text=True, check=False).stdout
        for what, line in commands.items()
    }


def test_a_cluster_that_died_is_out_of_reach_and_can_be_brought_up_again(tmp_path: Path) -> None:
    second = Cluster(state=str(tmp_path / "second"))
    try:
        assert second.script("up").returncode == 0
        kill(int(second.script("pid", "node").stdout))
        second.until(lambda: second.script("status").returncode == 1, "it is down")
        program, config = (f"{second.state}/{name}" for name in ("bin/kubectl", "admin.kubeconfig"))
        asked = subprocess.run(
            [program, "--kubeconfig", config, "get", "nodes"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "no route to host" in asked.stderr, "the question took the machine's default route"
        assert second.script("up").returncode == 0
        assert second.get("serviceaccount", "default")
    finally:
        assert second.script("down").returncode == 0


def test_up_on_a_folder_that_holds_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    refused = Cluster(state=str(tmp_path)).script("up")
    assert refused.returncode == 2
    assert "holds other files" in refused.stderr
    assert Cluster(state=str(tmp_path)).script("down").returncode == 0
    assert (tmp_path / "mine.txt").read_text() == "precious"
