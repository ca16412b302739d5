// A second verifier of Keyhouse's evidence files. Limits: quotes of SGX alone; cosignatures of Ed25519
// alone; of manifests it checks users, roles, thresholds, repeated and unknown fields, and not the rules
// for packages, marbles, definitions of secrets and TLS; no hidden entries of other kinds than anchors
// can be told apart, so each is a gap.
//
// It shares no code with the first verifier. It judges revocation, expiry, times of witnesses and the TCB.
//
// Usage: evidence_go ROOT_PEM ATTESTATION POLICY ROOT_FINGERPRINT NOW < names of files
//
// NOW is the time of the verifier's clock, in seconds since 1970. For each file it prints "ok", or
// "gaps:" and their names, or the step that refuses the file and why.
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
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
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

// An expired is a refusal by collateral that was valid at an earlier time.
type expired struct{ refusal }

type identity struct {
	UniqueID, SignerID                      string
	ProductID, SecurityVersion              uint16
	AcceptedTCBStatuses, AcceptedAdvisories []string
}

// What an auditor trusts.
type pins struct {
	vendor *x509.Certificate
	code   identity
	policy *policy
	root   string
	now    time.Time
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
	now, err := strconv.ParseInt(args[4], 10, 64)
	fail(err)
	trust := &pins{vendor, identity{}, readPolicy(string(contents[2])), args[3], time.Unix(now, 0)}
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
			switch refused := caught.(type) {
			case refusal:
				said = refused.step + ": " + refused.why
			case expired:
				said = refused.step + ": " + refused.why
			default:
				panic(caught)
			}
		}
	}()
	gaps := verify(readEvidence(expanded(raw)), trust)
	if len(gaps) == 0 {
		return "ok"
	}
	return "gaps: " + strings.Join(slices.Sorted(maps.Keys(gaps)), " ")
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
