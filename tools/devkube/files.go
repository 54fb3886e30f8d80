package main

import (
	"encoding/json"
	"os"
	"strings"
)

const pauseImage = "devkube.local/pause:1"

// Object is a JSON object; every configuration below is small enough to be read as one.
type Object = map[string]any

// writeFiles writes the configuration of all parts.
func writeFiles(node *Node) error {
	files := map[string]string{
		"containerd.toml":         containerdConfig(node),
		"cni/10-devkube.conflist": text(networkConfig(node)),
		"kubelet.json":            text(kubeletConfig(node)),
		"audit.json":              text(auditPolicy()),
		"resolv.conf":             "# The cluster has no name server but its own.\n",
		"logs/.keep":              "",
	}
	for _, who := range []string{"admin", "controller-manager", "scheduler", "proxy", "kubelet"} {
		config, err := kubeconfig(node, who)
		if err != nil {
			return err
		}
		files[who+".kubeconfig"] = text(config)
	}
	for name, content := range files {
		if err := write(node.Path(name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func text(object Object) string {
	encoded, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		panic(err) // only maps, lists and strings come here
	}
	return string(encoded) + "\n"
}

// kubeconfig carries its certificates inside, so that it can be copied anywhere.
func kubeconfig(node *Node, who string) (Object, error) {
	content := map[string][]byte{}
	for _, file := range []string{"ca.crt", who + ".crt", who + ".key"} {
		var err error
		if content[file], err = os.ReadFile(node.Path("pki/" + file)); err != nil {
			return nil, err
		}
	}
	cluster := Object{"server": node.Server(), "certificate-authority-data": content["ca.crt"]}
	user := Object{
		"client-certificate-data": content[who+".crt"],
		"client-key-data":         content[who+".key"],
	}
	return Object{
		"apiVersion":      "v1",
		"kind":            "Config",
		"clusters":        []Object{{"name": node.Name(), "cluster": cluster}},
		"users":           []Object{{"name": who, "user": user}},
		"contexts":        []Object{{"name": node.Name(), "context": Object{"cluster": node.Name(), "user": who}}},
		"current-context": node.Name(),
	}, nil
}

func kubeletConfig(node *Node) Object {
	return Object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		"authentication": Object{
			"anonymous": Object{"enabled": false},
			"webhook":   Object{"enabled": true},
			"x509":      Object{"clientCAFile": node.Path("pki/ca.crt")},
		},
		"authorization":            Object{"mode": "Webhook"},
		"tlsCertFile":              node.Path("pki/kubelet.crt"),
		"tlsPrivateKeyFile":        node.Path("pki/kubelet.key"),
		"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
		"cgroupDriver":             "cgroupfs",
		"cgroupRoot":               "/" + node.Name(),
		"failCgroupV1":             false,
		"failSwapOn":               false,
		"oomScoreAdj":              0, // a lower one needs a right that virtual machines may lack
		"clusterDNS":               []string{node.IP()},
		"clusterDomain":            "cluster.local",
		"resolvConf":               node.Path("resolv.conf"),
		"maxPods":                  250,
		// An image that was removed could not be pulled again.
		"imageGCHighThresholdPercent": 100,
		"evictionHard": Object{
			"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%",
			"nodefs.inodesFree": "1%",
		},
	}
}

// auditPolicy writes down what ServiceAccounts ask for, and every change of a Job or a Federation,
// so that tests can tell who did what and how often. What Kubernetes' own parts do is left out.
func auditPolicy() Object {
	changes := Object{
		"level": "Metadata",
		"verbs": []string{"create", "update", "patch", "delete", "deletecollection"},
		"resources": []Object{
			{"group": "batch", "resources": []string{"jobs", "jobs/*"}},
			{"group": "hansa.dev", "resources": []string{"federations", "federations/*"}},
		},
	}
	return Object{
		"apiVersion": "audit.k8s.io/v1",
		"kind":       "Policy",
		"omitStages": []string{"RequestReceived"},
		"rules": []Object{
			changes,
			{"level": "None", "userGroups": []string{"system:serviceaccounts:kube-system"}},
			{"level": "Metadata", "userGroups": []string{"system:serviceaccounts"}},
			{"level": "None"},
		},
	}
}

// networkConfig joins each Pod to the node by a cable of its own: packets between Pods are routed
// and so pass kube-proxy's rules, which they would only do on a bridge if the kernel had
// br_netfilter. Without ipMasq they keep their addresses and could not leave the machine.
func networkConfig(node *Node) Object {
	return Object{
		"cniVersion": "0.4.0",
		"name":       "devkube",
		"plugins": []Object{{
			"type":   "ptp",
			"ipMasq": false,
			"ipam": Object{
				"type":   "host-local",
				"ranges": [][]Object{{{"subnet": node.Pods()}}},
				"routes": []Object{{"dst": "0.0.0.0/0"}},
			},
		}},
	}
}

func containerdConfig(node *Node) string {
	return strings.NewReplacer("STATE", node.State, "PAUSE", pauseImage).Replace(`version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"] # it would make /opt/containerd

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "PAUSE"
  restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "STATE/cni"
`)
}
