package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// Identity is who a certificate speaks for; the groups are what Kubernetes grants rights to.
type Identity struct {
	File   string
	Name   string
	Groups []string
	Hosts  []string
}

// identities lists everybody who talks to the API or answers for it.
func identities(node *Node) []Identity {
	return []Identity{
		{File: "apiserver", Name: "kube-apiserver", Hosts: []string{
			"127.0.0.1", node.IP(), node.FirstService(), "localhost", "kubernetes",
			"kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}},
		{File: "apiserver-kubelet", Name: "kube-apiserver-kubelet", Groups: []string{"system:masters"}},
		{File: "admin", Name: "admin", Groups: []string{"system:masters"}},
		{File: "controller-manager", Name: "system:kube-controller-manager"},
		{File: "scheduler", Name: "system:kube-scheduler"},
		{File: "proxy", Name: "system:kube-proxy"},
		{File: "kubelet", Name: "system:node:" + node.Name(), Groups: []string{"system:nodes"},
			Hosts: []string{node.IP(), node.Name()}},
	}
}

// writeCertificates makes an authority, a certificate per identity and the key that signs
// ServiceAccount tokens. A cluster lives for hours; its certificates for a year.
func writeCertificates(node *Node) error {
	if _, err := os.Stat(node.Path("pki/tokens.key")); err == nil {
		return nil // written last: all are there
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	authority := template(Identity{Name: "devkube"})
	authority.IsCA, authority.BasicConstraintsValid = true, true
	authority.KeyUsage |= x509.KeyUsageCertSign
	if err := sign(node, "ca", authority, authority, key, key); err != nil {
		return err
	}
	for _, identity := range identities(node) {
		own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		if err := sign(node, identity.File, template(identity), authority, own, key); err != nil {
			return err
		}
	}
	return writeTokenKeys(node)
}

func template(identity Identity) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	certificate := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: identity.Name, Organization: identity.Groups},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	for _, host := range identity.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			certificate.IPAddresses = append(certificate.IPAddresses, ip)
		} else {
			certificate.DNSNames = append(certificate.DNSNames, host)
		}
	}
	return certificate
}

func sign(node *Node, file string, certificate, authority *x509.Certificate, own, signer *ecdsa.PrivateKey) error {
	der, err := x509.CreateCertificate(rand.Reader, certificate, authority, &own.PublicKey, signer)
	if err != nil {
		return fmt.Errorf("certificate %s: %w", file, err)
	}
	if err := writePEM(node.Path("pki/"+file+".crt"), "CERTIFICATE", der); err != nil {
		return err
	}
	return writeKey(node.Path("pki/"+file+".key"), own)
}

func writeTokenKeys(node *Node) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	if err := writePEM(node.Path("pki/tokens.pub"), "PUBLIC KEY", public); err != nil {
		return err
	}
	return writeKey(node.Path("pki/tokens.key"), key)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return write(path, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})), 0o600)
}
