package main

// parts are the programs of the cluster. They start together: each one waits for, or is restarted
// until it finds, those it needs.
func parts(node *Node) []Part {
	return []Part{
		{"containerd", "/usr/bin/containerd", []string{
			"containerd", "--config", node.Path("containerd.toml"),
		}},
		own("etcd", etcdFlags(node)),
		own("kube-apiserver", apiserverFlags(node)),
		own("kube-controller-manager", controllerFlags(node)),
		own("kube-scheduler", []string{
			"--kubeconfig=" + node.Kubeconfig("scheduler"),
			"--leader-elect=false",
			"--bind-address=127.0.0.1",
		}),
		own("kubelet", []string{
			"--kubeconfig=" + node.Kubeconfig("kubelet"),
			"--config=" + node.Path("kubelet.json"),
			"--hostname-override=" + node.Name(),
			"--node-ip=" + node.IP(),
		}),
		own("kube-proxy", []string{
			"--kubeconfig=" + node.Kubeconfig("proxy"),
			"--hostname-override=" + node.Name(),
			"--proxy-mode=iptables",
			"--conntrack-max-per-core=0", // a setting of the whole machine
			"--oom-score-adj=0",
			"--healthz-bind-address=127.0.0.1:10256",
			"--metrics-bind-address=127.0.0.1:10249",
		}),
		// It needs to see what kube-proxy sees: Services and their addresses.
		own("dns", []string{node.Kubeconfig("proxy"), node.IP() + ":53"}),
		own("policies", []string{node.Kubeconfig("admin")}),
		own("volumes", []string{node.Kubeconfig("admin"), node.Path("volumes"), node.Name()}),
	}
}

// own is a part that this binary can be.
func own(name string, flags []string) Part {
	return Part{name, "/proc/self/exe", append([]string{"devkube", name}, flags...)}
}

func etcdFlags(node *Node) []string {
	const client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	return []string{
		"--name=" + node.Name(),
		"--data-dir=/var/lib/etcd",
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=" + node.Name() + "=" + peer,
		// The cluster has no life after a power cut, and slow disks make tests slow.
		"--unsafe-no-fsync",
	}
}

func apiserverFlags(node *Node) []string {
	return []string{
		"--etcd-servers=http://127.0.0.1:2379",
		"--advertise-address=" + node.IP(),
		"--bind-address=" + node.IP(),
		"--secure-port=6443",
		"--service-cluster-ip-range=" + node.Services(),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--client-ca-file=" + node.Path("pki/ca.crt"),
		"--tls-cert-file=" + node.Path("pki/apiserver.crt"),
		"--tls-private-key-file=" + node.Path("pki/apiserver.key"),
		"--kubelet-certificate-authority=" + node.Path("pki/ca.crt"),
		"--kubelet-client-certificate=" + node.Path("pki/apiserver-kubelet.crt"),
		"--kubelet-client-key=" + node.Path("pki/apiserver-kubelet.key"),
		// The node's name is in no DNS.
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + node.Path("pki/tokens.pub"),
		"--service-account-signing-key-file=" + node.Path("pki/tokens.key"),
		"--audit-policy-file=" + node.Path("audit.json"),
		"--audit-log-path=" + node.Path("logs/audit.log"),
		"--audit-log-maxsize=1000", // MiB: a test reads the whole story from one file
		"--profiling=false",
	}
}

func controllerFlags(node *Node) []string {
	return []string{
		"--kubeconfig=" + node.Kubeconfig("controller-manager"),
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + node.Path("pki/tokens.key"),
		"--root-ca-file=" + node.Path("pki/ca.crt"),
		"--cluster-signing-cert-file=" + node.Path("pki/ca.crt"),
		"--cluster-signing-key-file=" + node.Path("pki/ca.key"),
		"--profiling=false",
	}
}
