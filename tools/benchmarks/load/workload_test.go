// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// joins has the certificates, signing requests, types and UUIDs of the requests to a test server.
type joins struct {
	sync.Mutex
	certificates, requests, types, uuids, connections map[string]int
}

func workloadServer(t *testing.T, refuses bool) (*httptest.Server, *joins) {
	t.Helper()
	all := func() map[string]int { return map[string]int{} }
	asked := &joins{certificates: all(), requests: all(), types: all(), uuids: all(), connections: all()}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fields := fieldsOf(t, body)
		csr, err := x509.ParseCertificateRequest(fields[2])
		if err != nil || csr.CheckSignature() != nil || r.URL.Path != activateCall || r.ProtoMajor != 2 {
			t.Errorf("%s %s with %v", r.Proto, r.URL.Path, err)
		}
		asked.Lock()
		asked.certificates[string(r.TLS.PeerCertificates[0].Raw)]++
		asked.requests[string(fields[2])]++
		asked.types[string(fields[3])]++
		asked.uuids[string(fields[4])]++
		asked.connections[r.RemoteAddr]++
		asked.Unlock()
		w.Header().Set("Content-Type", "application/grpc")
		if refuses {
			w.Header().Set("Grpc-Status", "7")
			return
		}
		w.Header().Set("Trailer", "Grpc-Status")
		// All answers of a connection together exceed the initial window of a client.
		answer := bytes.Repeat([]byte("x"), 20_000)
		_, _ = w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(answer))), answer...))
		w.Header().Set("Grpc-Status", "0")
	}))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, asked
}

// fieldsOf returns the fields of the message in a gRPC body, by number.
func fieldsOf(t *testing.T, body []byte) map[int][]byte {
	if len(body) < 5 || body[0] != 0 || int(binary.BigEndian.Uint32(body[1:])) != len(body)-5 {
		t.Fatalf("%x is no message", body)
	}
	fields := map[int][]byte{}
	for message := body[5:]; len(message) > 0; {
		length, size := binary.Uvarint(message[1:])
		end := 1 + size + int(length)
		fields[int(message[0]>>3)], message = message[1+size:end], message[end:]
	}
	return fields
}

func TestEachWorkloadHasAKeyAndAConnectionOfItsOwn(t *testing.T) {
	for _, keys := range []string{"p256", "p384"} {
		s, asked := workloadServer(t, false)
		r := run(t, "-url", s.URL, "-activate", written(t, "web\nstorage\n"), "-workload-keys", keys,
			"-new-connections", "-clients", "2", "-max-requests", "10")
		if r.Errors != 0 || len(asked.connections) != 10 || len(asked.certificates) != 10 {
			t.Errorf("%s: %+v over %d connections", keys, r, len(asked.connections))
		}
		if len(asked.requests) != 10 || len(asked.uuids) != 10 || asked.types["web"] != 5 {
			t.Errorf("%s: %d signing requests, types %v", keys, len(asked.requests), asked.types)
		}
	}
}

func TestKeptConnectionsActivateAgainAndAgain(t *testing.T) {
	s, asked := workloadServer(t, false)
	r := run(t, "-url", s.URL, "-activate", written(t, "web\n"), "-clients", "2", "-max-requests", "40")
	if r.Errors != 0 || len(asked.connections) != 2 || len(asked.uuids) != 40 {
		t.Errorf("%+v over %d connections", r, len(asked.connections))
	}
}

func TestRefusedActivationsAreErrors(t *testing.T) {
	s, _ := workloadServer(t, true)
	r := run(t, "-url", s.URL, "-activate", written(t, "web\n"), "-clients", "1", "-max-requests", "3")
	if r.Errors != 3 || r.Failures["refused"] != 3 {
		t.Errorf("%+v", r)
	}
}
