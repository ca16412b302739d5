// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"fmt"
	"math/big"
	"time"
)

var keyCurves = map[string]elliptic.Curve{"p256": elliptic.P256(), "p384": elliptic.P384()}

// workload is a joining workload. As with a launcher, it has a separate key, a self-signed certificate
// for the connection, and a signing request. Certificate and signing request have this key.
type workload struct {
	certificate *tls.Certificate
	csr         []byte
}

func newWorkload(curve elliptic.Curve) (*workload, error) {
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: "workload"},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "workload"},
		DNSNames: []string{"workload"},
	}, key)
	if err != nil {
		return nil, err
	}
	return &workload{&tls.Certificate{Certificate: [][]byte{certificate}, PrivateKey: key}, csr}, nil
}

// config returns the TLS configuration of the workload's connections. The client sends the certificate
// independently of the authorities in the server's list.
func (w *workload) config(p *plan) *tls.Config {
	config := p.tls.Clone()
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return w.certificate, nil
	}
	return config
}

// request returns an encoded rpc.ActivationReq without a quote, for a new UUID.
func (w *workload) request(marbleType string) []byte {
	var id [16]byte
	_, _ = rand.Read(id[:]) // crypto/rand.Read never returns an error
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	text := fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	message := field(nil, 2, w.csr)
	message = field(message, 3, []byte(marbleType))
	return field(message, 4, []byte(text))
}

// field appends a field of type bytes in the encoding of protobuf.
func field(message []byte, number byte, value []byte) []byte {
	message = append(message, number<<3|2)
	message = binary.AppendUvarint(message, uint64(len(value)))
	return append(message, value...)
}
