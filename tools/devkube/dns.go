package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/clientcmd"
)

const zone = ".svc.cluster.local."

// Names answers for the names of Services, and for nothing else: what is not in the cluster is not
// known here, so no question leaves the machine either.
type Names struct {
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister
}

// serveNames takes "KUBECONFIG ADDRESS" and answers there until it is ended.
func serveNames(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("devkube dns: got %q, expected a kubeconfig and an address", args)
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
	names := &Names{
		services: factory.Core().V1().Services().Lister(),
		slices:   factory.Discovery().V1().EndpointSlices().Lister(),
	}
	factory.Start(context.Background().Done())
	factory.WaitForCacheSync(context.Background().Done())
	packets, err := net.ListenPacket("udp", args[1])
	if err != nil {
		return err
	}
	streams, err := net.Listen("tcp", args[1])
	if err != nil {
		return err
	}
	go names.serveStreams(streams)
	return names.servePackets(packets)
}

func (n *Names) servePackets(connection net.PacketConn) error {
	buffer := make([]byte, 4096)
	for {
		size, sender, err := connection.ReadFrom(buffer)
		if err != nil {
			return err
		}
		if reply := n.reply(buffer[:size]); reply != nil {
			_, _ = connection.WriteTo(reply, sender)
		}
	}
}

func (n *Names) serveStreams(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go n.serveStream(connection)
	}
}

// serveStream reads questions with their length before them, as DNS over TCP has it.
func (n *Names) serveStream(connection net.Conn) {
	defer connection.Close()
	for {
		_ = connection.SetDeadline(time.Now().Add(10 * time.Second))
		var size uint16
		if binary.Read(connection, binary.BigEndian, &size) != nil {
			return
		}
		question := make([]byte, size)
		if _, err := io.ReadFull(connection, question); err != nil {
			return
		}
		reply := n.reply(question)
		if reply == nil || binary.Write(connection, binary.BigEndian, uint16(len(reply))) != nil {
			return
		}
		if _, err := connection.Write(reply); err != nil {
			return
		}
	}
}

func (n *Names) reply(packet []byte) []byte {
	var message dnsmessage.Message
	if message.Unpack(packet) != nil || message.Response || len(message.Questions) != 1 {
		return nil
	}
	question := message.Questions[0]
	addresses, known := n.addresses(strings.ToLower(question.Name.String()))
	message.Response, message.Authoritative = true, true
	message.RecursionAvailable = false
	message.Answers, message.Authorities, message.Additionals = nil, nil, nil
	if !known {
		message.RCode = dnsmessage.RCodeNameError
	}
	if question.Type == dnsmessage.TypeA {
		message.Answers = records(question.Name, addresses)
	}
	reply, err := message.Pack()
	if err != nil {
		return nil
	}
	return reply
}

// records live for 2 s: a Service made anew under the same name is found at once.
func records(name dnsmessage.Name, addresses []string) []dnsmessage.Resource {
	var answers []dnsmessage.Resource
	for _, address := range addresses {
		if ip := net.ParseIP(address).To4(); ip != nil {
			answers = append(answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: 2},
				Body:   &dnsmessage.AResource{A: [4]byte(ip)},
			})
		}
	}
	return answers
}

// addresses finds a Service's address, or those of its ready Pods where it is headless.
func (n *Names) addresses(name string) (addresses []string, known bool) {
	parts := strings.Split(strings.TrimSuffix(name, zone), ".")
	if !strings.HasSuffix(name, zone) || len(parts) != 2 {
		return nil, false
	}
	service, err := n.services.Services(parts[1]).Get(parts[0])
	if err != nil {
		return nil, false
	}
	if service.Spec.ClusterIP != core.ClusterIPNone {
		return []string{service.Spec.ClusterIP}, true
	}
	own := labels.SelectorFromSet(labels.Set{discovery.LabelServiceName: service.Name})
	slices, err := n.slices.EndpointSlices(service.Namespace).List(own)
	if err != nil {
		return nil, true
	}
	for _, slice := range slices {
		for _, endpoint := range slice.Endpoints {
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				addresses = append(addresses, endpoint.Addresses...)
			}
		}
	}
	return addresses, true
}
