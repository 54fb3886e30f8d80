package main

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	networklisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// Policies enforces NetworkPolicies by packet rules of the node, through which every packet of a Pod
// goes. Named ports are not understood: a rule with one lets nothing through. A connection that was
// open before a policy came stays open, a Pod is open until it has an address in its status, and what
// the node and the machine send is always let through.
type Policies struct {
	policies   networklisters.NetworkPolicyLister
	pods       corelisters.PodLister
	namespaces corelisters.NamespaceLister
	written    string   // the rules that the kernel has
	chains     []string // and the chains that Pods have there
}

// servePolicies takes "KUBECONFIG" and enforces until it is ended.
func servePolicies(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("devkube policies: got %q, expected a kubeconfig", args)
	}
	config, err := clientcmd.BuildConfigFromFlags("", args[0])
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	policies, pods := factory.Networking().V1().NetworkPolicies(), factory.Core().V1().Pods()
	namespaces := factory.Core().V1().Namespaces()
	changed := make(chan struct{}, 1)
	for _, informer := range []cache.SharedIndexInformer{
		policies.Informer(), pods.Informer(), namespaces.Informer(),
	} {
		if _, err := informer.AddEventHandler(whenever(changed)); err != nil {
			return err
		}
	}
	server := &Policies{policies.Lister(), pods.Lister(), namespaces.Lister(), "", nil}
	factory.Start(context.Background().Done())
	factory.WaitForCacheSync(context.Background().Done())
	return server.serve(changed)
}

func (p *Policies) serve(changed <-chan struct{}) error {
	for {
		if err := p.reconcile(); err != nil {
			fmt.Printf("%s %v\n", time.Now().UTC().Format(time.RFC3339), err)
		}
		select {
		case <-changed:
		case <-time.After(30 * time.Second): // after an error
		}
	}
}

// reconcile writes all rules at once where one has changed: the kernel swaps old ones for new ones.
func (p *Policies) reconcile() error {
	chains, lines, err := p.rules()
	if err != nil {
		return err
	}
	rules := document(chains, lines, p.chains)
	if rules == p.written {
		return nil
	}
	command := exec.Command("iptables-restore", "--noflush", "--wait")
	command.Stdin = strings.NewReader(rules)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("iptables-restore: %s", output)
	}
	// First of all rules: kube-proxy's let answers pass, and packets that it has marked.
	for _, chain := range []string{"INPUT", "FORWARD"} {
		jump := []string{"--wait", "--check", chain, "--jump", policyChain}
		if exec.Command("iptables", jump...).Run() == nil {
			continue
		}
		jump[1] = "--insert"
		if output, err := exec.Command("iptables", jump...).CombinedOutput(); err != nil {
			return fmt.Errorf("iptables: %s", output)
		}
	}
	p.written, p.chains = document(chains, lines, chains), chains
	return nil
}

// document is what iptables-restore reads: it empties every chain that is named at its head.
func document(chains, lines, before []string) string {
	head, tail := []string{"*filter", ":" + policyChain + " - [0:0]"}, []string{}
	for _, chain := range chains {
		head = append(head, ":"+chain+" - [0:0]")
	}
	for _, chain := range before {
		if !slices.Contains(chains, chain) {
			head, tail = append(head, ":"+chain+" - [0:0]"), append(tail, "-X "+chain)
		}
	}
	return strings.Join(slices.Concat(head, lines, tail, []string{"COMMIT", ""}), "\n")
}

const policyChain = "DEVKUBE-POLICIES"

// rules are those of the whole cluster, and the chains that they need. A packet has to get by what its
// sender may send, and then by what its receiver may receive: a chain for each Pod and direction that
// a policy binds.
func (p *Policies) rules() (chains, lines []string, err error) {
	pods, err := p.pods.List(labels.Everything())
	if err != nil {
		return nil, nil, err
	}
	pods = slices.DeleteFunc(pods, func(pod *core.Pod) bool { return !hasAddress(pod) })
	slices.SortFunc(pods, func(a, b *core.Pod) int { return strings.Compare(a.Status.PodIP, b.Status.PodIP) })
	for _, pass := range []string{"-m conntrack --ctstate ESTABLISHED,RELATED", "-i node", "-i lo"} {
		lines = append(lines, "-A "+policyChain+" "+pass+" -j RETURN")
	}
	for _, way := range []networking.PolicyType{networking.PolicyTypeEgress, networking.PolicyTypeIngress} {
		own, _ := ends(way)
		for _, pod := range pods {
			bound, allowed, err := p.allowed(pod, way)
			if err != nil {
				return nil, nil, err
			}
			if !bound {
				continue
			}
			chain := chainOf(pod, way)
			chains = append(chains, chain)
			lines = append(lines, fmt.Sprintf("-A %s %s %s -j %s", policyChain, own, pod.Status.PodIP, chain))
			slices.Sort(allowed) // they come in any order
			for _, match := range allowed {
				lines = append(lines, fmt.Sprintf("-A %s %s -j RETURN", chain, match))
			}
			lines = append(lines, fmt.Sprintf("-A %s -j REJECT --reject-with icmp-admin-prohibited", chain))
		}
	}
	return chains, lines, nil
}

// chainOf is the name of the chain of a Pod's address, which at most one Pod has at a time.
func chainOf(pod *core.Pod, way networking.PolicyType) string {
	return fmt.Sprintf("DEVKUBE-%s-%s", strings.ToUpper(string(way)[:2]), pod.Status.PodIP)
}

// ends are the options for the Pod's own end of a packet and for the other one.
func ends(way networking.PolicyType) (own, other string) {
	if way == networking.PolicyTypeEgress {
		return "-s", "-d"
	}
	return "-d", "-s"
}

// hasAddress tells whether a Pod has an address of its own, and has it still.
func hasAddress(pod *core.Pod) bool {
	ended := pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed
	return pod.Status.PodIP != "" && !pod.Spec.HostNetwork && !ended
}

// allowed are the matches of packets that some policy lets through; a Pod that none binds is open.
func (p *Policies) allowed(pod *core.Pod, way networking.PolicyType) (bool, []string, error) {
	policies, err := p.policies.NetworkPolicies(pod.Namespace).List(labels.Everything())
	if err != nil {
		return false, nil, err
	}
	bound, matches := false, []string{}
	for _, policy := range policies {
		chosen, err := meta.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		if err != nil {
			return false, nil, err
		}
		if !chosen.Matches(labels.Set(pod.Labels)) || !binds(policy, way) {
			continue
		}
		bound = true
		for _, rule := range rulesOf(policy, way) {
			found, err := p.matches(policy.Namespace, rule, way)
			if err != nil {
				return false, nil, err
			}
			matches = append(matches, found...)
		}
	}
	return bound, matches, nil
}

// binds tells whether a policy is about that direction; the API server has filled in which.
func binds(policy *networking.NetworkPolicy, way networking.PolicyType) bool {
	for _, each := range policy.Spec.PolicyTypes {
		if each == way {
			return true
		}
	}
	return false
}

// rulesOf are a policy's rules of one direction, in the shape that ingress and egress have in common.
func rulesOf(policy *networking.NetworkPolicy, way networking.PolicyType) []networking.NetworkPolicyEgressRule {
	if way == networking.PolicyTypeEgress {
		return policy.Spec.Egress
	}
	var rules []networking.NetworkPolicyEgressRule
	for _, rule := range policy.Spec.Ingress {
		rules = append(rules, networking.NetworkPolicyEgressRule{Ports: rule.Ports, To: rule.From})
	}
	return rules
}

// matches are all pairs of a peer and a port of a rule.
func (p *Policies) matches(
	namespace string, rule networking.NetworkPolicyEgressRule, way networking.PolicyType,
) ([]string, error) {
	blocks := []string{"0.0.0.0/0"}
	if len(rule.To) > 0 {
		blocks = nil
	}
	for _, peer := range rule.To {
		found, err := p.blocks(namespace, peer)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, found...)
	}
	_, other := ends(way)
	var matches []string
	for _, block := range blocks {
		for _, port := range portMatches(rule.Ports) {
			matches = append(matches, strings.TrimSpace(other+" "+block+" "+port))
		}
	}
	return matches, nil
}

func portMatches(ports []networking.NetworkPolicyPort) []string {
	if len(ports) == 0 {
		return []string{""}
	}
	var matches []string
	for _, port := range ports {
		protocol := "tcp"
		if port.Protocol != nil {
			protocol = strings.ToLower(string(*port.Protocol))
		}
		match := "-p " + protocol
		if port.Port != nil {
			if port.Port.IntValue() == 0 {
				continue // by name
			}
			match += fmt.Sprintf(" --dport %d", port.Port.IntValue())
		}
		if port.EndPort != nil {
			match += fmt.Sprintf(":%d", *port.EndPort)
		}
		matches = append(matches, match)
	}
	return matches
}

// blocks are the addresses of a peer.
func (p *Policies) blocks(namespace string, peer networking.NetworkPolicyPeer) ([]string, error) {
	if peer.IPBlock != nil {
		return without(peer.IPBlock)
	}
	namespaces := []string{namespace}
	if peer.NamespaceSelector != nil {
		chosen, err := meta.LabelSelectorAsSelector(peer.NamespaceSelector)
		if err != nil {
			return nil, err
		}
		found, err := p.namespaces.List(chosen)
		if err != nil {
			return nil, err
		}
		namespaces = nil
		for _, each := range found {
			namespaces = append(namespaces, each.Name)
		}
	}
	chosen := labels.Everything()
	if peer.PodSelector != nil {
		var err error
		if chosen, err = meta.LabelSelectorAsSelector(peer.PodSelector); err != nil {
			return nil, err
		}
	}
	var blocks []string
	for _, each := range namespaces {
		pods, err := p.pods.Pods(each).List(chosen)
		if err != nil {
			return nil, err
		}
		for _, pod := range pods {
			if hasAddress(pod) {
				blocks = append(blocks, pod.Status.PodIP)
			}
		}
	}
	return blocks, nil
}

// without are the blocks that are left of a block when its exceptions are taken out. The cluster has
// no addresses of version 6.
func without(block *networking.IPBlock) ([]string, error) {
	whole, err := netip.ParsePrefix(block.CIDR)
	if err != nil || !whole.Addr().Is4() {
		return nil, err
	}
	var excepted []netip.Prefix
	for _, text := range block.Except {
		except, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		excepted = append(excepted, except.Masked())
	}
	return left(whole.Masked(), excepted), nil
}

func left(block netip.Prefix, excepted []netip.Prefix) []string {
	for _, except := range excepted {
		if except.Bits() <= block.Bits() && except.Overlaps(block) {
			return nil
		}
		if except.Overlaps(block) {
			lower, upper := halves(block)
			return append(left(lower, excepted), left(upper, excepted)...)
		}
	}
	return []string{block.String()}
}

func halves(block netip.Prefix) (lower, upper netip.Prefix) {
	bytes := block.Addr().As4()
	bytes[block.Bits()/8] |= 0x80 >> (block.Bits() % 8)
	return netip.PrefixFrom(block.Addr(), block.Bits()+1),
		netip.PrefixFrom(netip.AddrFrom4(bytes), block.Bits()+1)
}
