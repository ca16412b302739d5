package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type entry struct {
	raw    []byte // nil if it is hidden
	hidden tlog.Hash
}

type evidence struct {
	origin, key, collateral       string
	root, intermediate, signature []byte
	nonce, quote                  []byte
	made                          time.Time
	checkpoints                   []string
	entries                       []entry
	objects                       map[string][]byte
}

var form = with(map[string]check{
	"mediaType":    matching(`^` + `application/vnd\.keyhouse\.evidence\.v1\+json` + `$`),
	"made":         count,
	"origin":       func(value any) bool { _, is := value.(string); return is },
	"root":         base64Text,
	"intermediate": base64Text,
	"log": with(map[string]check{
		"key": func(value any) bool { _, is := value.(string); return is }, "signature": base64Text,
	}),
	"head":        with(map[string]check{"nonce": base64Text, "quote": base64Text, "collateral": hash}),
	"checkpoints": listOf(func(value any) bool { _, is := value.(string); return is }),
	"entries": listOf(either(base64Text, with(map[string]check{"hidden": func(value any) bool {
		raw, is := bytesIn(value)
		return is && len(raw) == tlog.HashSize
	}}))),
	"objects": func(value any) bool {
		found, is := value.(object)
		for each, content := range found {
			if !hash(each) || !base64Text(content) {
				return false
			}
		}
		return is
	},
	"disclosures": func(value any) bool { list, is := value.([]any); return is && len(list) == 0 },
})

func readEvidence(raw []byte) *evidence {
	body, ended := bytes.CutSuffix(raw, []byte("\n"))
	value := canonical(body)
	require(ended && form(value), "file", "not in its one form")
	found := value.(object)
	log, head := found["log"].(object), found["head"].(object)
	of := func(from object, field string) []byte { raw, _ := bytesIn(from[field]); return raw }
	read := &evidence{
		origin: found["origin"].(string), key: log["key"].(string),
		collateral: head["collateral"].(string), root: of(found, "root"),
		intermediate: of(found, "intermediate"), signature: of(log, "signature"),
		nonce: of(head, "nonce"), quote: of(head, "quote"), objects: map[string][]byte{},
		made: time.Unix(int64(number(found["made"])/1e6), 0),
	}
	for _, each := range found["checkpoints"].([]any) {
		read.checkpoints = append(read.checkpoints, each.(string))
	}
	for _, each := range found["entries"].([]any) {
		var one entry
		if hidden, is := each.(object); is {
			copy(one.hidden[:], of(hidden, "hidden"))
		} else {
			one.raw, _ = bytesIn(each)
			one.raw = append([]byte{}, one.raw...)
		}
		read.entries = append(read.entries, one)
	}
	objects := found["objects"].(object)
	for each := range objects {
		read.objects[each] = of(objects, each)
		require(name(read.objects[each]) == each, "file", "the object %s", each)
	}
	return read
}

// A tree over all entries, whose hashes are stored as sumdb stores them.
type tree struct{ stored []tlog.Hash }

func (t *tree) ReadHashes(places []int64) ([]tlog.Hash, error) {
	found := make([]tlog.Hash, len(places))
	for i, at := range places {
		found[i] = t.stored[at]
	}
	return found, nil
}

func (t *tree) root(size int) tlog.Hash {
	found, err := tlog.TreeHash(int64(size), t)
	if err != nil {
		panic(err)
	}
	return found
}

func grown(entries []entry) *tree {
	t := &tree{}
	for i, each := range entries {
		leaf := each.hidden
		if each.raw != nil {
			leaf = tlog.RecordHash(each.raw)
		}
		more, err := tlog.StoredHashesForRecordHash(int64(i), leaf, t)
		if err != nil {
			panic(err)
		}
		t.stored = append(t.stored, more...)
	}
	return t
}

// late is how far clocks of coordinators, witnesses and verifiers may differ.
const late = 10 * time.Minute

// mostOfASize is how many checkpoints of one size a file may have.
const mostOfASize = 64

// A milestone is a checkpoint with the time of its quorum; the time is zero if it has none.
type milestone struct {
	size int
	text string
	time time.Time
}

// verify returns the names of the gaps.
func verify(file *evidence, trust *pins) map[string]bool {
	requireDeployment(file, trust)
	log := logKey(file)
	if trust.policy != nil && len(trust.policy.logs) > 0 {
		require(slices.Contains(trust.policy.logs, file.key), "log key", "not a log of the policy")
	}
	t := grown(file.entries)
	milestones := checkpoints(file, log, t, trust)
	if !trust.none() {
		requireHead(file, trust, milestones[len(milestones)-1])
	}
	gaps := followAll(file, trust, t, milestones)
	switch {
	case trust.none():
		gaps["nothing-pinned"] = true
	case trust.root == "":
		gaps["root-not-pinned"] = true
	}
	if !trust.none() && trust.policy == nil {
		gaps["no-witnesses"] = true
	}
	return gaps
}

func requireDeployment(file *evidence, trust *pins) {
	require(trust.root == "" || name(file.root) == trust.root, "deployment", "another root")
	if trust.manifest == "" {
		return
	}
	require(len(file.entries) > 1 && file.entries[1].raw != nil, "deployment", "no first manifest")
	l := readLeaf(file.entries[1].raw)
	same := l != nil && l.kind == "manifest-set" && l.text("manifest") == trust.manifest
	require(same, "deployment", "another first manifest")
}

func logKey(file *evidence) note.Verifier {
	log, err := note.NewVerifier(file.key)
	require(err == nil && log.Name() == file.origin, "log key", "not of the origin")
	root, err := x509.ParseCertificate(file.root)
	require(err == nil, "log key", "the root cannot be read")
	message := append([]byte("keyhouse log key v1\x00"), file.key...)
	require(signedBy(root, file.signature, message), "log key", "not signed by the root")
	issued, err := x509.ParseCertificate(file.intermediate)
	good := err == nil && issued.CheckSignatureFrom(root) == nil && issued.IsCA
	good = good && bytes.Equal(issued.RawIssuer, root.RawSubject)
	require(good, "log key", "the intermediate is not a CA of the root")
	return log
}

// signedBy tells whether the certificate's key made the signature: ECDSA with SHA-256.
func signedBy(certificate *x509.Certificate, signature, message []byte) bool {
	key, is := certificate.PublicKey.(*ecdsa.PublicKey)
	sum := sha256.Sum256(message)
	return is && ecdsa.VerifyASN1(key, sum[:], signature)
}

func checkpoints(file *evidence, log note.Verifier, t *tree, trust *pins) []milestone {
	var notes []*signedNote
	var found []milestone
	last, equal := 0, 0
	for _, raw := range file.checkpoints {
		read := readNote(raw)
		require(read != nil && read.signedBy(log), "tree", "not signed by the log")
		size, root, good := read.checkpoint(file.origin)
		good = good && size > 0 && last <= size && size <= len(file.entries)
		require(good, "tree", "a checkpoint of another log, or out of order")
		own := t.root(size)
		require(bytes.Equal(own[:], root), "tree", "other entries than those of size %d", size)
		equal++
		if size != last {
			equal = 1
		}
		require(equal <= mostOfASize, "tree", "too many checkpoints of size %d", size)
		last, notes = size, append(notes, read)
		found = append(found, milestone{size: size, text: read.text})
	}
	require(len(notes) > 0 && last == len(file.entries), "tree", "not over all entries")
	if trust.policy == nil {
		return found
	}
	var before time.Time
	for i, read := range notes {
		found[i].time = trust.policy.time(read, trust.now.Add(late))
		if !found[i].time.IsZero() {
			require(!found[i].time.Before(before.Add(-late)), "witnesses", "their times run back")
			before = found[i].time
		}
	}
	end := found[len(found)-1].time
	require(!end.IsZero(), "witnesses", "no quorum")
	require(trust.age == 0 || trust.now.Sub(end) <= trust.age, "witnesses", "too old")
	return found
}

func requireHead(file *evidence, trust *pins, last milestone) {
	collateral, there := file.objects[file.collateral]
	require(there, "hardware", "no collateral")
	at := last.time
	if trust.policy == nil {
		at = file.made
	}
	require(!at.After(trust.now.Add(late)), "hardware", "made in the future")
	j := &judge{"hardware", at, trust.codes[0]}
	report := readQuote(file.quote, collateral, trust.vendor, j)
	first := sha256.Sum256(append(append([]byte{}, file.root...), file.nonce...))
	second := sha256.Sum256([]byte("keyhouse head v1\x00" + last.text))
	report.requireBound(first, second, "hardware")
	require(report.is(trust.codes[0]), "hardware", "code that is not accepted")
}

func number(value any) uint64 {
	found, _ := strconv.ParseUint(string(value.(json.Number)), 10, 64)
	return found
}

func at(index int) string { return fmt.Sprintf("entry %d", index) }
