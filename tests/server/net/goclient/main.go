// goclient asks a server three times on one kept connection, then once more on a resumed one,
// and prints what it negotiated and was answered as one JSON line.
package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
)

type report struct {
	Version  string   `json:"version"`
	Group    string   `json:"group"`
	Protocol string   `json:"protocol"`
	Reused   []bool   `json:"reused"`
	Resumed  bool     `json:"resumed"`
	Statuses []int    `json:"statuses"`
	Bodies   []string `json:"bodies"`
}

func main() {
	url := flag.String("url", "", "base URL")
	pair := flag.String("pair", "", "PEM file with the client's certificate and key; empty for none")
	version := flag.String("version", "1.3", "1.2 or 1.3")
	flag.Parse()
	if err := run(*url, *pair, *version); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(url, pair, version string) error {
	config := &tls.Config{
		InsecureSkipVerify: true, // the test compares what the server saw, not the server
		ClientSessionCache: tls.NewLRUClientSessionCache(4),
		MaxVersion:         map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}[version],
	}
	if pair != "" {
		certificate, err := tls.LoadX509KeyPair(pair, pair)
		if err != nil {
			return err
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	client := &http.Client{Transport: transport}
	var out report
	requests := []func() (*http.Request, error){
		func() (*http.Request, error) { return http.NewRequest("GET", url+"/status?a=b", nil) },
		func() (*http.Request, error) {
			return http.NewRequest("POST", url+"/echo", bytes.NewReader([]byte("hello")))
		},
		// A reader of unknown length is sent in chunks.
		func() (*http.Request, error) {
			return http.NewRequest("POST", url+"/echo", io.MultiReader(bytes.NewReader([]byte("hello"))))
		},
	}
	for _, make := range requests {
		if err := ask(client, make, &out); err != nil {
			return err
		}
	}
	transport.CloseIdleConnections()
	if err := ask(client, requests[0], &out); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

func ask(client *http.Client, make func() (*http.Request, error), out *report) error {
	request, err := make()
	if err != nil {
		return err
	}
	trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		out.Reused = append(out.Reused, got.Reused)
	}}
	response, err := client.Do(request.WithContext(httptrace.WithClientTrace(request.Context(), trace)))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	out.Version = tls.VersionName(response.TLS.Version)
	out.Group = response.TLS.CurveID.String()
	out.Protocol = response.Proto
	out.Resumed = response.TLS.DidResume
	out.Statuses = append(out.Statuses, response.StatusCode)
	out.Bodies = append(out.Bodies, string(body))
	return nil
}
