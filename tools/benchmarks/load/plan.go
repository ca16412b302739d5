// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/elliptic"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"
)

// These limits bound every run.
const (
	maxClients  = 4096
	maxSeconds  = 600
	maxRequests = 10_000_000 // 80 MB for the latencies
	maxFile     = 256 << 20
)

// plan has the checked settings and all data of a run. A run reads no files.
type plan struct {
	address        string   // loopback IP address and port
	requests       [][]byte // complete HTTP/1.1 requests, sent in turn
	types          [][]byte // marble types to activate in turn; nil: requests over HTTP
	keys           elliptic.Curve
	clients        int
	warmup         time.Duration
	duration       time.Duration
	maxRequests    int64
	newConnections bool
	expected       int
	tls            *tls.Config
	serverPID      int
}

var curves = map[string][]tls.CurveID{
	"p256":   {tls.CurveP256},
	"x25519": {tls.X25519},
	"hybrid": {tls.X25519MLKEM768},
}

// planFromArguments returns the plan of a command line, or an error for an invalid command line.
func planFromArguments(arguments []string) (*plan, error) {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	target := flags.String("url", "", "https URL with a loopback IP address and a port")
	method := flags.String("method", "GET", "GET or POST")
	body := flags.String("body", "", "file with the body of all requests")
	bodies := flags.String("bodies", "", "file with a body on each line, sent in turn")
	targets := flags.String("targets", "", "file with a path and query on each line, requested in turn")
	clients := flags.Int("clients", 32, "number of concurrent clients")
	seconds := flags.Float64("seconds", 2, "seconds of the measurement")
	warmup := flags.Float64("warmup", 0.3, "seconds of load before the measurement")
	limit := flags.Int64("max-requests", maxRequests, "maximum number of requests")
	fresh := flags.Bool("new-connections", false, "a new connection and full handshake each time")
	curve := flags.String("curve", "hybrid", "key exchange: p256, x25519 or hybrid (X25519MLKEM768)")
	types := flags.String("activate", "", "file with a marble type on each line: activate them in turn")
	keys := flags.String("workload-keys", "p256", "curve of the keys of workloads: p256 or p384")
	certificate := flags.String("cert", "", "file with the client certificate, PEM")
	key := flags.String("key", "", "file with its private key, PEM")
	expected := flags.Int("expect", 200, "status of a successful request")
	pid := flags.Int("pid", 0, "process ID of the server, for its CPU time in the report")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("%q is not an option", flags.Arg(0))
	}
	location, err := loopback(*target)
	if err != nil {
		return nil, err
	}
	if *clients < 1 || *clients > maxClients {
		return nil, fmt.Errorf("-clients must be 1 to %d", maxClients)
	}
	if !(*seconds > 0 && *seconds <= maxSeconds) || !(*warmup >= 0 && *warmup <= maxSeconds) {
		return nil, fmt.Errorf("-seconds and -warmup must be at most %d", maxSeconds)
	}
	if *limit < 1 || *limit > maxRequests {
		return nil, fmt.Errorf("-max-requests must be 1 to %d", maxRequests)
	}
	config, err := tlsConfig(*curve, *certificate, *key)
	if err != nil {
		return nil, err
	}
	lines, err := requestLines(*method, location, *targets)
	if err != nil {
		return nil, err
	}
	contents, err := requestBodies(*method, *body, *bodies)
	if err != nil {
		return nil, err
	}
	if len(lines) > 1 && len(contents) > 1 {
		return nil, errors.New("-targets and -bodies exclude each other")
	}
	marbles, err := marbleTypes(*types, config)
	if err != nil {
		return nil, err
	}
	curveOfKeys, known := keyCurves[*keys]
	if !known {
		return nil, errors.New("-workload-keys must be p256 or p384")
	}
	return &plan{
		types:          marbles,
		keys:           curveOfKeys,
		address:        location.Host,
		requests:       assemble(lines, contents, location.Host, *method == "POST", *fresh),
		clients:        *clients,
		warmup:         time.Duration(*warmup * float64(time.Second)),
		duration:       time.Duration(*seconds * float64(time.Second)),
		maxRequests:    *limit,
		newConnections: *fresh,
		expected:       *expected,
		tls:            config,
		serverPID:      *pid,
	}, nil
}

// marbleTypes returns the lines of a file, and sets HTTP/2 in config. Without a file the result is nil.
func marbleTypes(name string, config *tls.Config) ([][]byte, error) {
	if name == "" {
		return nil, nil
	}
	config.NextProtos = []string{"h2"}
	return readLines(name)
}

// loopback returns the parsed URL if the host is a numeric loopback address. Host names, even
// "localhost", are refused, because a resolver outside of this program maps names to addresses.
func loopback(text string) (*url.URL, error) {
	location, err := url.Parse(text)
	if err != nil || location.Scheme != "https" || location.Port() == "" {
		return nil, errors.New("-url must be like https://127.0.0.1:4433/api/v2/status")
	}
	if ip := net.ParseIP(location.Hostname()); ip == nil || !ip.IsLoopback() {
		return nil, errors.New("-url must name a loopback address by number, 127.0.0.1 or [::1]")
	}
	return location, nil
}

func tlsConfig(curve, certificate, key string) (*tls.Config, error) {
	groups, known := curves[curve]
	if !known {
		return nil, errors.New("-curve must be p256, x25519 or hybrid")
	}
	config := &tls.Config{
		InsecureSkipVerify: true, // loopback only, and the requests have no real secrets
		NextProtos:         []string{"http/1.1"},
		CurvePreferences:   groups,
	}
	if certificate == "" && key == "" {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, errors.New("-cert and -key must be a certificate and its key, as PEM files")
	}
	// The client sends the certificate independently of the authorities in the server's list.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &pair, nil
	}
	return config, nil
}

func requestLines(method string, location *url.URL, targets string) ([]string, error) {
	if method != "GET" && method != "POST" {
		return nil, errors.New("-method must be GET or POST")
	}
	if targets == "" {
		return []string{method + " " + location.RequestURI() + " HTTP/1.1\r\n"}, nil
	}
	lines, err := readLines(targets)
	if err != nil {
		return nil, err
	}
	var result []string
	for _, line := range lines {
		text := string(line)
		if !strings.HasPrefix(text, "/") || strings.ContainsAny(text, " \r\t\x00") {
			return nil, errors.New("-targets: each line must be a path, from its / on")
		}
		result = append(result, method+" "+text+" HTTP/1.1\r\n")
	}
	return result, nil
}

func requestBodies(method, body, bodies string) ([][]byte, error) {
	switch {
	case body == "" && bodies == "":
		return [][]byte{nil}, nil
	case method != "POST":
		return nil, errors.New("only a POST has a body")
	case body != "" && bodies != "":
		return nil, errors.New("-body and -bodies exclude each other")
	case bodies != "":
		return readLines(bodies)
	}
	content, err := readFile(body)
	return [][]byte{content}, err
}

func readFile(name string) ([]byte, error) {
	status, err := os.Stat(name)
	if err != nil || status.Size() > maxFile {
		return nil, fmt.Errorf("%s cannot be read or is larger than %d bytes", name, maxFile)
	}
	return os.ReadFile(name)
}

func readLines(name string) ([][]byte, error) {
	content, err := readFile(name)
	if err != nil {
		return nil, err
	}
	var lines [][]byte
	for _, line := range bytes.Split(content, []byte("\n")) {
		if len(line) > 0 {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s has no lines", name)
	}
	return lines, nil
}

// assemble returns the complete bytes of the requests, so the program sends a request by one write.
func assemble(lines []string, bodies [][]byte, host string, withBody, closing bool) [][]byte {
	requests := make([][]byte, max(len(lines), len(bodies)))
	for i := range requests {
		body := bodies[i%len(bodies)]
		var request bytes.Buffer
		request.WriteString(lines[i%len(lines)])
		fmt.Fprintf(&request, "Host: %s\r\nUser-Agent: keyhouse-load\r\n", host)
		if withBody {
			fmt.Fprintf(&request, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
		}
		if closing {
			request.WriteString("Connection: close\r\n")
		}
		request.WriteString("\r\n")
		request.Write(body)
		requests[i] = request.Bytes()
	}
	return requests
}
