// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"io"
)

// Frames of HTTP/2 (RFC 9113) for one call at a time.
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	frameReset        = 0x3
	frameSettings     = 0x4
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8

	flagAck        = 0x1
	flagEndStream  = 0x1
	flagEndHeaders = 0x4

	frameHead    = 9
	preface      = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	wholeWindow  = 1<<31 - 1
	firstWindow  = 1<<16 - 1
	lastStream   = 1<<31 - 1
	activateCall = "/rpc.Marble/Activate"
)

const failedRefused failure = "refused"

// opening is the first data of a client. The largest windows permit the server to send without pause.
var opening = func() []byte {
	settings := binary.BigEndian.AppendUint16(nil, 4) // SETTINGS_INITIAL_WINDOW_SIZE
	settings = binary.BigEndian.AppendUint32(settings, wholeWindow)
	update := binary.BigEndian.AppendUint32(nil, wholeWindow-firstWindow)
	begin := append([]byte(preface), frame(frameSettings, 0, 0, settings)...)
	return append(begin, frame(frameWindowUpdate, 0, 0, update)...)
}()

// call sends a message over gRPC, and reads the complete answer. The result is 200 for an answer with
// a message. A refusal has only trailers and no message. The code does not decode the trailers.
func (c *connection) call(host string, message []byte) (int, error) {
	var sent []byte
	if c.nextStream == 0 {
		c.nextStream, sent = 1, append(sent, opening...)
	}
	stream := c.nextStream
	c.nextStream += 2
	framed := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	sent = append(sent, frame(frameHeaders, flagEndHeaders, stream, callHeaders(host))...)
	sent = append(sent, frame(frameData, flagEndStream, stream, append(framed, message...))...)
	if _, err := c.stream.Write(sent); err != nil {
		return 0, reason(err, failedSend)
	}
	return c.answer(stream)
}

func (c *connection) answer(stream uint32) (int, error) {
	received := 0
	for {
		var head [frameHead]byte
		if _, err := io.ReadFull(c.reader, head[:]); err != nil {
			return 0, reason(err, failedReceive)
		}
		length := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
		kind, flags, id := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		if _, err := c.reader.Discard(length); err != nil {
			return 0, reason(err, failedReceive)
		}
		switch {
		case kind == frameSettings && flags&flagAck == 0:
			if _, err := c.stream.Write(frame(frameSettings, flagAck, 0, nil)); err != nil {
				return 0, reason(err, failedSend)
			}
		case kind == frameGoAway || kind == frameReset:
			return 0, failedAnswer
		case kind == frameData && id == stream:
			received += length
		}
		if (kind == frameHeaders || kind == frameData) && id == stream && flags&flagEndStream != 0 {
			if received == 0 {
				return 0, failedRefused
			}
			return 200, nil
		}
	}
}

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	length := len(payload)
	made := []byte{byte(length >> 16), byte(length >> 8), byte(length), kind, flags}
	return append(binary.BigEndian.AppendUint32(made, stream), payload...)
}

// callHeaders returns the headers of a call in HPACK (RFC 7541). The code adds no header to the dynamic
// table, so the bytes are the same on each stream. Entries of the static table: 3 POST, 7 https,
// 4 :path, 1 :authority, 31 content-type.
func callHeaders(host string) []byte {
	block := []byte{0x83, 0x87, 0x04, byte(len(activateCall))}
	block = append(block, activateCall...)
	block = append(append(block, 0x01, byte(len(host))), host...)
	block = append(append(block, 0x0f, 0x10, 16), "application/grpc"...)
	block = append(append(block, 0x00, 2), "te"...)
	return append(append(block, 8), "trailers"...)
}
