// Devkube is a complete single-node Kubernetes in one program: its first argument names the part
// to be, so that one build, one file and one version serve the whole cluster.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs are the parts this binary can be. Each reads os.Args as if it were a binary of its own.
var programs = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          func() { run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() { run(controllers.NewControllerManagerCommand()) },
	"kube-proxy":              func() { run(proxy.NewProxyCommand()) },
	"kube-scheduler":          func() { run(scheduler.NewSchedulerCommand()) },
	"kubelet":                 func() { run(kubelet.NewKubeletCommand(context.Background())) },
	"kubectl":                 runKubectl,
	// The parts that are devkube's own.
	"dns":      func() { exit(serveNames(os.Args[1:])) },
	"image":    func() { exit(writeImage(os.Args[1:])) },
	"node":     func() { exit(runNode(os.Args[1:])) },
	"policies": func() { exit(servePolicies(os.Args[1:])) },
	"start":    func() { exit(startNode(os.Args[1:])) },
	"volumes":  func() { exit(serveVolumes(os.Args[1:])) },
}

func main() {
	// A link named kubectl is kubectl.
	if program := programs[filepath.Base(os.Args[0])]; program != nil {
		program()
		return
	}
	if len(os.Args) < 2 || programs[os.Args[1]] == nil {
		exit(fmt.Errorf("devkube: got %q, expected one of %s",
			strings.Join(os.Args[1:], " "), strings.Join(names(), ", ")))
	}
	program := programs[os.Args[1]]
	os.Args = os.Args[1:]
	program()
}

func names() []string {
	all := make([]string, 0, len(programs))
	for name := range programs {
		all = append(all, name)
	}
	sort.Strings(all)
	return all
}

func run(command *cobra.Command) { os.Exit(cli.Run(command)) }

func runKubectl() {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(2)
	}
	os.Exit(0)
}
