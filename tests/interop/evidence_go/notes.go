package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"
)

type signature struct {
	name string
	id   uint32
	raw  []byte
}

type signedNote struct {
	text       string
	signatures []signature
}

// readNote returns the signed note in raw; nil if it is not exactly one.
func readNote(raw string) *signedNote {
	if len(raw) > 256<<10 || !utf8.ValidString(raw) {
		return nil
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r < ' ' && r != '\n' }) {
		return nil
	}
	end := strings.LastIndex(raw, "\n\n")
	if end < 0 || !strings.HasSuffix(raw, "\n") || end+2 >= len(raw) {
		return nil
	}
	read := &signedNote{text: raw[:end+1]}
	for _, each := range strings.Split(strings.TrimSuffix(raw[end+2:], "\n"), "\n") {
		rest, dash := strings.CutPrefix(each, "— ")
		by, data, space := strings.Cut(rest, " ")
		raw, is := bytesIn(data)
		if !dash || !space || !is || len(raw) <= 4 || by == "" || strings.Contains(by, "+") ||
			strings.ContainsFunc(by, unicode.IsSpace) {
			return nil
		}
		read.signatures = append(read.signatures, signature{by, binary.BigEndian.Uint32(raw), raw[4:]})
	}
	if len(read.signatures) > 64 {
		return nil
	}
	return read
}

// signedBy tells whether key has signed: once or more, and every time well.
func (n *signedNote) signedBy(key note.Verifier) bool {
	found := false
	for _, each := range n.signatures {
		if each.name == key.Name() && each.id == key.KeyHash() {
			if !key.Verify([]byte(n.text), each.raw) {
				return false
			}
			found = true
		}
	}
	return found
}

var sizes = regexp.MustCompile(`^(0|[1-9][0-9]{0,18})$`)

// checkpoint returns size and root, if the text is that of a checkpoint of origin, and no more.
func (n *signedNote) checkpoint(origin string) (int, []byte, bool) {
	lines := strings.Split(n.text, "\n")
	if len(lines) != 4 || lines[0] != origin || origin == "" || !sizes.MatchString(lines[1]) {
		return 0, nil, false
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	root, is := bytesIn(lines[2])
	return int(size), root, err == nil && is && len(root) == 32
}

// A cosigner is the Ed25519 key of a witness (C2SP tlog-cosignature, type 4).
type cosigner struct {
	name string
	id   uint32
	key  ed25519.PublicKey
}

func (c cosigner) Name() string    { return c.name }
func (c cosigner) KeyHash() uint32 { return c.id }
func (c cosigner) Verify(text, raw []byte) bool {
	if len(raw) != 8+ed25519.SignatureSize {
		return false
	}
	time := binary.BigEndian.Uint64(raw)
	message := fmt.Sprintf("cosignature/v1\ntime %d\n%s", time, text)
	return time > 0 && time < 1<<63 && ed25519.Verify(c.key, []byte(message), raw[8:])
}

// A policy: witnesses, groups of witnesses or groups, and which of these is the quorum.
type policy struct {
	witnesses map[string]cosigner
	groups    map[string][]string
	needed    map[string]int
	quorum    string
	logs      []string // verifier keys
}

func readPolicy(text string) *policy {
	read := &policy{
		witnesses: map[string]cosigner{}, groups: map[string][]string{}, needed: map[string]int{},
	}
	for _, each := range strings.Split(text, "\n") {
		words := strings.Fields(each)
		switch {
		case len(words) >= 2 && words[0] == "log":
			read.logs = append(read.logs, words[1])
		case len(words) >= 3 && words[0] == "witness":
			parts := strings.SplitN(words[2], "+", 3)
			id, err := strconv.ParseUint(parts[1], 16, 32)
			fail(err)
			raw, err := base64.StdEncoding.DecodeString(parts[2])
			fail(err)
			if raw[0] == 4 { // those of ML-DSA are not known here, so they are never seen
				read.witnesses[words[1]] = cosigner{parts[0], uint32(id), raw[1:]}
			}
		case len(words) >= 4 && words[0] == "group":
			needed := map[string]int{"any": 1, "all": len(words) - 3}[words[2]]
			if needed == 0 {
				var err error
				needed, err = strconv.Atoi(words[2])
				fail(err)
			}
			read.needed[words[1]], read.groups[words[1]] = needed, words[3:]
		case len(words) == 2 && words[0] == "quorum":
			read.quorum = words[1]
		}
	}
	return read
}

// time returns when enough have cosigned, the lower median; zero if they have not. A damaged
// cosignature of a known key refuses the file. Of a key the latest time counts, unless it is after latest.
func (p *policy) time(read *signedNote, latest time.Time) time.Time {
	signed := map[string]bool{}
	var times []int64
	for each, key := range p.witnesses {
		var last int64
		for _, one := range read.signatures {
			if one.name == key.name && one.id == key.id {
				require(key.Verify([]byte(read.text), one.raw), "witnesses", "a damaged cosignature")
				last = max(last, int64(binary.BigEndian.Uint64(one.raw)))
			}
		}
		if last > 0 && last <= latest.Unix() {
			times = append(times, last)
			signed[each] = true
		}
	}
	var enough func(string) bool
	enough = func(named string) bool {
		members, group := p.groups[named]
		if !group {
			return signed[named]
		}
		found := 0
		for _, each := range members {
			if enough(each) {
				found++
			}
		}
		return found >= p.needed[named]
	}
	if len(times) == 0 || !enough(p.quorum) {
		return time.Time{}
	}
	slices.Sort(times)
	return time.Unix(times[(len(times)-1)/2], 0)
}
