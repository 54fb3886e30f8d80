package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Node is one cluster: a folder for everything it keeps, and a number from which its addresses,
// interface and control group follow, so that several clusters live on one machine.
type Node struct {
	State string
	Slot  int
}

// newNode reads "STATE SLOT", the arguments that `start` and `node` take.
func newNode(args []string) (*Node, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("devkube: got %q, expected a state folder and a number", args)
	}
	slot, err := strconv.Atoi(args[1])
	if err != nil || slot < 0 || slot > 49 {
		return nil, fmt.Errorf("devkube: number: got %q, expected 0 to 49", args[1])
	}
	return &Node{State: args[0], Slot: slot}, nil
}

func (n *Node) Name() string                 { return fmt.Sprintf("devkube%d", n.Slot) }
func (n *Node) Path(name string) string      { return filepath.Join(n.State, name) }
func (n *Node) IP() string                   { return fmt.Sprintf("10.%d.0.2", 200+n.Slot) }
func (n *Node) Services() string             { return fmt.Sprintf("10.%d.64.0/20", 200+n.Slot) }
func (n *Node) FirstService() string         { return fmt.Sprintf("10.%d.64.1", 200+n.Slot) }
func (n *Node) Pods() string                 { return fmt.Sprintf("10.%d.128.0/20", 200+n.Slot) }
func (n *Node) Server() string               { return "https://" + n.IP() + ":6443" }
func (n *Node) Kubeconfig(who string) string { return n.Path(who + ".kubeconfig") }

// startNode starts `node` in process, mount and network namespaces of its own and prints its PID.
// All that the cluster makes lives in those, so ending that one process ends every other process,
// mount, interface and packet rule of the cluster, and the machine's own are never touched.
func startNode(args []string) error {
	node, err := newNode(args)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(node.Path("node.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	command := exec.Command("/proc/self/exe", append([]string{"node"}, args...)...)
	command.Args[0] = "devkube"
	command.Dir = "/"
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
	}
	if err := command.Start(); err != nil {
		return err
	}
	fmt.Println(command.Process.Pid)
	return nil
}

// runNode is the cluster's first process: it prepares the node, keeps every part running and, as
// process 1 of its namespace, buries the orphans. When it ends, the kernel ends all the others.
func runNode(args []string) error {
	node, err := newNode(args)
	if err != nil {
		return err
	}
	if os.Getpid() != 1 {
		return fmt.Errorf("devkube node: got process %d, expected 1; use `start`", os.Getpid())
	}
	for _, step := range []func(*Node) error{
		prepareMounts, prepareCgroups, prepareNetwork, writeCertificates, writeFiles,
	} {
		if err := step(node); err != nil {
			return err
		}
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	keeper := newKeeper()
	for _, part := range parts(node) {
		go keeper.keep(node, part)
	}
	<-ended
	return nil
}

// Part is a program that has to run for as long as the cluster does.
type Part struct {
	Name string
	Path string
	Args []string // the first is how the process list shows it
}

// Keeper starts parts and hears of their ends. Only one loop may wait for children here: a second
// one would take away the exits that the first is looking for.
type Keeper struct {
	lock sync.Mutex
	exit map[int]chan syscall.WaitStatus
}

func newKeeper() *Keeper {
	keeper := &Keeper{exit: map[int]chan syscall.WaitStatus{}}
	go keeper.bury()
	return keeper
}

// keep runs a part again and again: one that was killed is back a second later.
func (k *Keeper) keep(node *Node, part Part) {
	for {
		status, err := k.runOnce(node, part)
		fmt.Printf("%s %s ended: status %d, error %v\n",
			time.Now().UTC().Format(time.RFC3339), part.Name, status, err)
		time.Sleep(time.Second)
	}
}

func (k *Keeper) runOnce(node *Node, part Part) (syscall.WaitStatus, error) {
	log, err := os.OpenFile(node.Path("logs/"+part.Name+".log"),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	k.lock.Lock() // so that an exit is not looked up before it is awaited
	pid, err := syscall.ForkExec(part.Path, part.Args, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "GOGC=50"},
		Files: []uintptr{0, log.Fd(), log.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	exit := make(chan syscall.WaitStatus, 1)
	if err == nil {
		k.exit[pid] = exit
	}
	k.lock.Unlock()
	if err != nil {
		return 0, err
	}
	return <-exit, nil
}

func (k *Keeper) bury() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil {
			time.Sleep(100 * time.Millisecond) // no child yet
			continue
		}
		k.lock.Lock()
		if exit := k.exit[pid]; exit != nil {
			exit <- status
			delete(k.exit, pid)
		}
		k.lock.Unlock()
	}
}
