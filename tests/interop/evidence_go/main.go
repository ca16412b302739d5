// A second verifier of Keyhouse's evidence files. Limits: quotes of SGX alone; cosignatures of Ed25519
// alone; of manifests it checks users, roles, thresholds, repeated and unknown fields, and not the rules
// for packages, marbles, definitions of secrets and TLS; no certificates of users with the OID RSASSA-PSS,
// which Go's x509 does not read; no hidden entries of other kinds than anchors can be told apart, so each is
// a gap.
//
// It shares no code with the first verifier. It judges revocation, expiry, times of witnesses and the TCB.
//
// Usage: evidence_go NOW < lines with a file, a tab, and the folder of what is trusted
//
// NOW is the time of the verifier's clock, in seconds since 1970, unless the folder has a file "now".
// For each file it prints "ok", or "gaps:" and their names, or the step that refuses the file and why.
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
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// What an auditor trusts. Nothing is pinned without root and manifest.
type pins struct {
	vendor         *x509.Certificate
	codes          []identity // that of the head, then older ones
	policy         *policy    // nil: no witness is trusted
	root, manifest string
	now            time.Time
	age            time.Duration // 0: any
}

func (p *pins) none() bool { return p.root == "" && p.manifest == "" }

func main() {
	now, err := strconv.ParseInt(os.Args[1], 10, 64)
	fail(err)
	known := map[string]*pins{}
	files := bufio.NewScanner(os.Stdin)
	for files.Scan() {
		file, folder, _ := strings.Cut(files.Text(), "\t")
		if known[folder] == nil {
			known[folder] = readPins(os.DirFS(folder), time.Unix(now, 0))
		}
		raw, err := os.ReadFile(file)
		fail(err)
		fmt.Println(verdict(raw, known[folder]))
	}
}

func readPins(folder fs.FS, now time.Time) *pins {
	text := func(named string) string {
		found, err := fs.ReadFile(folder, named)
		if !errors.Is(err, fs.ErrNotExist) {
			fail(err)
		}
		return strings.TrimSpace(string(found))
	}
	trust := &pins{root: text("root-fingerprint"), manifest: text("manifest-fingerprint"), now: now}
	var err error
	if stated := text("now"); stated != "" {
		trust.now, err = time.Parse(time.RFC3339, stated)
		fail(err)
	}
	if trust.none() {
		return trust
	}
	block, _ := pem.Decode([]byte(text("root.pem")))
	trust.vendor, err = x509.ParseCertificate(block.Bytes)
	fail(err)
	older, err := fs.Glob(folder, "accepted/*.json")
	fail(err)
	for _, each := range append([]string{"attestation.json"}, older...) {
		var code identity
		fail(json.Unmarshal([]byte(text(each)), &code))
		trust.codes = append(trust.codes, code)
	}
	if stated := text("witnesses.policy"); stated != "" {
		trust.policy = readPolicy(stated)
	}
	if stated := text("max-age"); stated != "" {
		trust.age, err = time.ParseDuration(stated + "s")
		fail(err)
	}
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
