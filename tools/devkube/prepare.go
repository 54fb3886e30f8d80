package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// kernelSettings are those that a kubelet sets for the whole machine. Each is covered by a file
// that already has the value, in the cluster's own view only, so the machine's stays as it is.
var kernelSettings = map[string]string{
	"kernel/keys/root_maxbytes": "25000000",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
}

// prepareMounts gives the cluster its own /run, /var/lib and /var/log below the state folder, so
// that containerd, runc, kubelet and network plugins can keep the places they know.
func prepareMounts(node *Node) error {
	// A slave first: nothing mounted here is seen outside, and what is unmounted outside goes here.
	if err := syscall.Mount("", "/", "", syscall.MS_SLAVE|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_SHARED|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	if err := syscall.Mount("run", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("/run: %w", err)
	}
	for name, target := range map[string]string{"lib": "/var/lib", "log": "/var/log"} {
		if err := os.MkdirAll(node.Path(name), 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(node.Path(name), target, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
	}
	return coverKernelSettings(node)
}

func coverKernelSettings(node *Node) error {
	for name, value := range kernelSettings {
		target := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(target); err != nil {
			continue // this kernel has no such setting
		}
		cover := node.Path(filepath.Join("sysctl", name))
		if err := write(cover, value+"\n", 0o644); err != nil {
			return err
		}
		if err := syscall.Mount(cover, target, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
	}
	return nil
}

// prepareCgroups makes the group below which the kubelet keeps all Pods: two kubelets that shared
// one would each remove the other's Pods from it.
func prepareCgroups(node *Node) error {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(root + "/cgroup.controllers"); err == nil {
		// Version 2: children only get the controllers that their parent hands down.
		handDown := []byte("+cpu +cpuset +hugetlb +io +memory +pids")
		for _, controller := range strings.Fields(string(handDown)) {
			_ = os.WriteFile(root+"/cgroup.subtree_control", []byte(controller), 0o644)
		}
		return os.MkdirAll(filepath.Join(root, node.Name()), 0o755)
	}
	hierarchies, err := filepath.Glob(root + "/*/cgroup.procs")
	if err != nil || len(hierarchies) == 0 {
		return fmt.Errorf("%s: got no control groups, expected version 1 or 2: %v", root, err)
	}
	for _, procs := range hierarchies {
		if err := prepareHierarchy(filepath.Dir(procs), node.Name()); err != nil {
			return err
		}
	}
	return nil
}

func prepareHierarchy(parent, name string) error {
	group := filepath.Join(parent, name)
	if err := os.MkdirAll(group, 0o755); err != nil {
		return err
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // empty in a new group
		if value, err := os.ReadFile(filepath.Join(parent, file)); err == nil {
			if err := os.WriteFile(filepath.Join(group, file), value, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepareNetwork gives the node its address on the interface that was handed in. There is no
// default route: no packet of the cluster leaves the machine. Service addresses are routed to a
// bridge without ports, so a packet to one goes nowhere when kube-proxy is down.
func prepareNetwork(node *Node) error {
	if err := waitForInterface("node", 10*time.Second); err != nil {
		return err
	}
	for _, command := range []string{
		"link set lo up",
		"address add " + node.IP() + "/30 dev node",
		"link set node up",
		"link add services type bridge",
		"link set services up",
		"route add " + node.Services() + " dev services",
	} {
		output, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %s", command, output)
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
}

func waitForInterface(name string, patience time.Duration) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if _, err := net.InterfaceByName(name); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("interface %s: not here after %s", name, patience)
}

// write makes the folders of a file, too.
func write(path, text string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), mode)
}
