// goactivate calls rpc.Marble/Activate with grpc-go: as often as it is told, over one connection,
// and prints the status code, the message and the size of each answer as one JSON line.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

const method = "/rpc.Marble/Activate"

type answer struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Bytes   []byte `json:"bytes"`
}

// plain sends and receives messages that are encoded already.
type plain struct{}

func (plain) Name() string { return "proto" }

func (plain) Marshal(value any) ([]byte, error) {
	if message, ok := value.([]byte); ok {
		return message, nil
	}
	return nil, errors.New("not bytes")
}

func (plain) Unmarshal(data []byte, value any) error {
	if message, ok := value.(*[]byte); ok {
		*message = append([]byte(nil), data...)
		return nil
	}
	return errors.New("no place for bytes")
}

func main() {
	address := flag.String("address", "", "host and port of the workload API")
	pair := flag.String("pair", "", "PEM file with the client's certificate and key")
	request := flag.String("request", "", "file with an encoded ActivationReq")
	version := flag.String("version", "1.3", "1.2 or 1.3")
	times := flag.Int("times", 1, "calls, one after the other")
	flag.Parse()
	if err := run(*address, *pair, *request, *version, *times); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address, pair, request, version string, times int) error {
	certificate, err := tls.LoadX509KeyPair(pair, pair)
	if err != nil {
		return err
	}
	message, err := os.ReadFile(request)
	if err != nil {
		return err
	}
	config := &tls.Config{
		InsecureSkipVerify: true, // the tests of trust are elsewhere
		Certificates:       []tls.Certificate{certificate},
		MaxVersion:         map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}[version],
	}
	connection, err := grpc.NewClient(
		"passthrough:///"+address,
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(plain{})),
	)
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	answers := []answer{}
	for range times {
		var found []byte
		state := status.Convert(connection.Invoke(ctx, method, message, &found))
		answers = append(answers, answer{state.Code().String(), state.Message(), found})
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}
