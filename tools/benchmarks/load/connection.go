// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strconv"
	"time"
)

const maxAnswer = 64 << 20

// failure is a reason for a request without an answer; the text is a key of the report.
type failure string

func (f failure) Error() string { return string(f) }

const (
	failedConnect   failure = "connect"
	failedHandshake failure = "handshake"
	failedSend      failure = "send"
	failedReceive   failure = "receive"
	failedTimeout   failure = "timeout"
	failedAnswer    failure = "unreadable answer"
	failedWorkload  failure = "workload"
)

// connection is a TLS connection with a buffer for answers. The program has its own HTTP code instead
// of net/http, so the load takes little processor time beside the server.
type connection struct {
	stream *tls.Conn
	reader *bufio.Reader

	nextStream uint32 // of HTTP/2; 0: before the first call
}

// open returns a connection after the handshake. All operations on the connection end at deadline.
func open(p *plan, config *tls.Config, deadline time.Time) (*connection, error) {
	dialer := net.Dialer{Deadline: deadline}
	socket, err := dialer.Dial("tcp", p.address)
	if err != nil {
		return nil, reason(err, failedConnect)
	}
	if err := socket.SetDeadline(deadline); err != nil {
		socket.Close()
		return nil, failedConnect
	}
	stream := tls.Client(socket, config)
	if err := stream.Handshake(); err != nil {
		socket.Close()
		return nil, reason(err, failedHandshake)
	}
	return &connection{stream: stream, reader: bufio.NewReaderSize(stream, 16<<10)}, nil
}

func (c *connection) close() { c.stream.Close() }

// send sends a request, or an activation, and returns the status of the answer.
func (c *connection) send(p *plan, request []byte) (status int, closing bool, err error) {
	if p.types == nil {
		return c.ask(request)
	}
	status, err = c.call(p.address, request)
	return status, c.nextStream > lastStream, err
}

// ask sends a request, reads the complete answer, and returns the status.
func (c *connection) ask(request []byte) (status int, closing bool, err error) {
	if _, err := c.stream.Write(request); err != nil {
		return 0, true, reason(err, failedSend)
	}
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return 0, true, reason(err, failedReceive)
	}
	if len(line) < 13 || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return 0, true, failedAnswer
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, true, failedAnswer
	}
	length, closing, err := c.fields()
	if err != nil {
		return 0, true, err
	}
	if _, err := c.reader.Discard(length); err != nil {
		return 0, true, reason(err, failedReceive)
	}
	return status, closing, nil
}

// fields reads the header, and returns the length of the body. An answer must have Content-Length.
func (c *connection) fields() (length int, closing bool, err error) {
	length = -1
	for {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return 0, true, reason(err, failedReceive)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, true, failedAnswer
			}
		case bytes.EqualFold(name, []byte("connection")):
			closing = bytes.EqualFold(value, []byte("close"))
		}
	}
	if length < 0 || length > maxAnswer {
		return 0, true, failedAnswer
	}
	return length, closing, nil
}

// reason distinguishes a timeout from all further errors. The report does not have the texts of
// errors, because each text would be a separate kind of failure.
func reason(err error, otherwise failure) failure {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return failedTimeout
	}
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		return failedTimeout
	}
	return otherwise
}
