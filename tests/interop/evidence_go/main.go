// A second verifier of Keyhouse's evidence files, which shares no code with the first.
//
// Usage: evidence_go ROOT_PEM ATTESTATION POLICY ROOT_FINGERPRINT < names of files
//
// Prints for each file "ok", or the step that refuses it and why. It verifies quotes up to the
// vendor's root and judges no TCB level; of cosignatures it knows those of Ed25519.
package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
)

type refusal struct{ step, why string }

func require(holds bool, step, format string, values ...any) {
	if !holds {
		panic(refusal{step, fmt.Sprintf(format, values...)})
	}
}

func name(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

type identity struct {
	UniqueID, SignerID         string
	ProductID, SecurityVersion uint16
}

// What an auditor trusts.
type pins struct {
	vendor *x509.Certificate
	code   identity
	policy *policy
	root   string
}

func main() {
	trust := readPins(os.Args[1:])
	files := bufio.NewScanner(os.Stdin)
	for files.Scan() {
		raw, err := os.ReadFile(files.Text())
		fail(err)
		fmt.Println(verdict(raw, trust))
	}
}

func readPins(args []string) *pins {
	var contents [3][]byte
	for i := range contents {
		var err error
		contents[i], err = os.ReadFile(args[i])
		fail(err)
	}
	block, _ := pem.Decode(contents[0])
	vendor, err := x509.ParseCertificate(block.Bytes)
	fail(err)
	trust := &pins{vendor: vendor, policy: readPolicy(string(contents[2])), root: args[3]}
	fail(json.Unmarshal(contents[1], &trust.code))
	return trust
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func verdict(raw []byte, trust *pins) (said string) {
	defer func() {
		if caught := recover(); caught != nil {
			refused, ours := caught.(refusal)
			if !ours {
				panic(caught)
			}
			said = refused.step + ": " + refused.why
		}
	}()
	verify(readEvidence(expanded(raw)), trust)
	return "ok"
}

const mostBytes = 512 << 20

func expanded(raw []byte) []byte {
	if !bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		return raw
	}
	source := bytes.NewReader(raw)
	member, err := gzip.NewReader(source)
	require(err == nil, "file", "gzip")
	member.Multistream(false)
	content, err := io.ReadAll(io.LimitReader(member, mostBytes+1))
	require(err == nil && len(content) <= mostBytes && source.Len() == 0, "file", "gzip")
	return content
}
