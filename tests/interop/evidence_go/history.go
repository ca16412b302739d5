package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"
)

type pending struct {
	manifest string
	missing  uint64
	voters   []string
	older    bool
}

type portion struct {
	approval string
	decided  uint64
	packages map[string]bool
}

// A history after the leaves so far.
type history struct {
	file         *evidence
	tree         *tree
	trust        *pins
	size         int
	time         uint64
	at           [2]uint64
	placed       bool
	platform     string
	manifest     string
	intermediate string
	versions     map[string]uint64
	pending      *pending
	decided      uint64
	portion      portion
	older        bool
	recovering   []string
	recoveringAt string
	known        map[string]*manifest
	instances    map[string]bool
	roots        map[string]uint64
	changesRoots bool
	witnessed    time.Time
	gaps         map[string]bool
}

func (h *history) gap(name string) { h.gaps[name] = true }

// object returns what a leaf names. It is in every file.
func (h *history) object(named string) []byte {
	raw, there := h.file.objects[named]
	require(there, "history", "the object %s is missing", named)
	return raw
}

// followAll returns the names of the gaps.
func followAll(file *evidence, trust *pins, t *tree, milestones []milestone) map[string]bool {
	h := &history{
		file: file, tree: t, trust: trust, versions: map[string]uint64{}, gaps: map[string]bool{},
		known: map[string]*manifest{}, instances: map[string]bool{},
	}
	for _, each := range file.entries {
		for milestones[0].size <= h.size || (trust.policy != nil && milestones[0].time.IsZero()) {
			milestones = milestones[1:]
		}
		h.witnessed = milestones[0].time
		if each.raw == nil {
			h.requireSettled(nil)
			shown := h.size > 1 || (h.size == 1 && h.older)
			require(shown, "history", "a hidden beginning")
			h.gap("hidden-entry")
			h.forgetRoots("")
			h.changesRoots = false
			h.portion = portion{}
		} else {
			l := readLeaf(each.raw)
			require(l != nil, "history", "%s is not a leaf of this version", at(h.size))
			h.follow(l)
		}
		h.size++
	}
	h.requireSettledAtEnd()
	last := h.intermediate
	require(last == "" || last == name(file.intermediate), "history", "another intermediate")
	if last == "" {
		h.gap("intermediate-unknown")
	}
	return h.gaps
}

func (h *history) requireSettledAtEnd() {
	require(h.size > 1 || h.older, "history", "the end is before the first manifest")
	require(h.recoveringAt == "", "history", "the end is before a start")
	require(h.pending == nil || h.pending.missing > 0, "history", "the end is before an update")
}

func (h *history) follow(l *leaf) {
	require((h.size == 0) == (l.kind == "log-begun"), "history", "a log begins once")
	second := h.size == 1 && (l.kind == "manifest-set") == h.older
	require(!second, "history", "the first manifest")
	require(l.number("time") >= h.time, "history", "the time runs back")
	h.requireSettled(l)
	needed := h.neededHead(l)
	h.forgetRoots(l.kind)
	h.step(l)
	h.changesRoots = slices.Contains(changingRoots, l.kind)
	if !h.witnessed.IsZero() && l.number("time") > uint64(h.witnessed.Add(late).UnixMicro()) {
		h.gap("claimed-time-late")
	}
	before := h.portion
	h.time, h.portion = l.number("time"), portion{}
	switch l.kind {
	case "packages-updated":
		h.portion = portion{l.text("approval"), needed, h.named(l, before)}
		h.decided = uint64(h.size) + 1
	case "log-begun", "manifest-set", "update-proposed", "update-cancelled", "manifest-updated":
		h.decided = uint64(h.size) + 1
	}
}

func (h *history) step(l *leaf) {
	switch l.kind {
	case "log-begun":
		h.begin(l)
	case "manifest-set":
		require(h.manifest == "" && h.size == 1, "history", "two first manifests")
		h.inForce(l)
	case "started":
		h.start(l)
	case "recovered":
		h.recover(l)
	case "update-proposed":
		h.propose(l)
	case "update-approved":
		h.approve(l)
	case "update-cancelled":
		h.cancel(l)
	case "manifest-updated":
		h.onBase(l)
		p := h.pending
		good := p != nil && p.manifest == l.text("manifest") && p.missing == 0
		require(good, "history", "not enough users")
		if p.older {
			h.gap("agreed-before-log")
		}
		h.inForce(l)
	case "packages-updated":
		h.packages(l)
	case "secrets-uploaded":
		h.uploads(l)
	case "trust":
		h.changeTrust(l)
	case "anchor":
		h.place(l.text("at"))
	}
}

func (h *history) requireSettled(l *leaf) {
	enough := h.pending != nil && h.pending.missing == 0
	applied := l != nil && l.kind == "manifest-updated"
	require(!enough || applied, "history", "an update did not take effect")
	if h.recoveringAt != "" {
		its := l != nil && (l.kind == "started" || l.kind == "recovered")
		require(its && l.text("at") == h.recoveringAt, "history", "a recovery without its start")
	}
}

// neededHead returns how many leaves the head of an approval has at least.
func (h *history) neededHead(l *leaf) uint64 {
	if h.portion.approval != "" && h.portion.approval == l.text("approval") {
		return h.portion.decided
	}
	return h.decided
}

// named returns the packages of a package update, in this leaf and those before it.
func (h *history) named(l *leaf, before portion) map[string]bool {
	named := map[string]bool{}
	for _, each := range l.fields["versions"].([]any) {
		named[each.([]any)[0].(string)] = true
	}
	if before.approval == "" || before.approval != l.text("approval") {
		return named
	}
	for each := range before.packages {
		require(!named[each], "history", "a package twice for one approval")
		named[each] = true
	}
	return named
}

// members returns who may do what; nil if the manifest in force is not in the file.
func (h *history) members() *manifest { return h.membersOf(h.manifest) }

func (h *history) membersOf(named string) *manifest {
	raw, there := h.file.objects[named]
	if !there {
		return nil
	}
	if h.known[named] == nil {
		h.known[named] = readManifest(raw)
	}
	return h.known[named]
}

// requirePublished returns if the file has the manifest of a leaf, or may lack it.
func (h *history) requirePublished(l *leaf) {
	named := l.text("manifest")
	in := h.membersOf(named)
	public, said := l.public()
	switch {
	case in == nil && public:
		h.object(named)
	case in == nil && said:
		h.gap("manifest-not-public")
	case in == nil:
		h.gap("manifest-missing")
	case said:
		require(public != in.hasValues(), "history", "the manifest contradicts that it is public")
	}
}

func (h *history) begin(l *leaf) {
	same := l.text("origin") == h.file.origin && l.text("root") == name(h.file.root) &&
		l.text("key") == h.file.key
	require(same, "history", "another log")
	h.platform = l.text("platform")
	imported := l.text("imported")
	h.older = imported != "" || !l.isNull("previous")
	if imported != "" {
		h.object(imported)
	}
	if !l.isNull("previous") {
		h.gap("replaces-log")
	} else if imported != "" {
		h.gap("older-than-log")
	}
	if l.text("manifest") != "" {
		require(h.older && l.text("intermediate") != "", "history", "a manifest in force before all")
		h.requirePublished(l)
		h.manifest, h.intermediate = l.text("manifest"), l.text("intermediate")
	} else {
		_, said := l.public()
		require(!said && l.text("intermediate") == "", "history", "no manifest in force")
	}
}

func (h *history) inForce(l *leaf) {
	h.manifest, h.intermediate = l.text("manifest"), l.text("intermediate")
	h.versions, h.pending, h.older = map[string]uint64{}, nil, false
	h.requirePublished(l)
	if in := h.members(); in != nil {
		named := in.Config.Transparency.Origin
		if named == "" && l.kind == "manifest-set" {
			named = "keyhouse/" + name(h.file.root)[:32]
		}
		require(named == "" || named == h.file.origin, "history", "another name of the log")
		var saidHolders, saidThreshold uint64
		if said, is := l.fields["recovery"].(object); is {
			saidHolders, saidThreshold = number(said["holders"]), number(said["threshold"])
		}
		holders, threshold := in.recovery()
		same := holders == saidHolders && threshold == saidThreshold
		require(same, "history", "other recovery keys")
	}
}

func (h *history) start(l *leaf) {
	require(l.text("platform") == h.platform, "history", "another platform")
	require(!h.instances[l.text("instance")], "history", "an instance starts twice")
	h.instances[l.text("instance")] = true
	if h.recoveringAt != "" && h.members() == nil {
		h.gap("rights-unknown")
	}
	if in := h.members(); in != nil && h.recoveringAt != "" {
		_, threshold := in.recovery()
		require(uint64(len(h.recovering)) >= threshold, "history", "too few holders")
		for _, each := range h.recovering {
			require(in.isHolder(each), "history", "no holder")
		}
	}
	h.place(l.text("at"))
	h.recovering, h.recoveringAt = nil, ""
	if h.trust.none() {
		return
	}
	accepted := slices.ContainsFunc(h.trust.codes, func(stated identity) bool {
		return (stated.UniqueID == "" || stated.UniqueID == l.text("unique")) &&
			(stated.SignerID == "" || stated.SignerID == l.text("signer")) &&
			(stated.ProductID == 0 || uint64(stated.ProductID) == l.number("product")) &&
			l.number("svn") >= uint64(stated.SecurityVersion)
	})
	require(accepted, "history", "code that is not accepted")
	if l.text("quote") == "" {
		require(l.text("collateral") == "", "history", "collateral without a quote")
		h.gap("start-without-quote")
		return
	}
	quote := h.object(l.text("quote"))
	if l.text("collateral") == "" {
		h.gap("start-without-collateral")
		return
	}
	collateral := h.object(l.text("collateral"))
	anyOf(h.trust.codes, func(code identity) { h.requireStart(l, quote, collateral, code) })
}

// anyOf returns if accept does not panic for one of the codes; else it panics as for the first one.
func anyOf(codes []identity, accept func(identity)) {
	var refusals []any
	for _, code := range codes {
		caught := func() (caught any) {
			defer func() { caught = recover() }()
			accept(code)
			return nil
		}()
		if caught == nil {
			return
		}
		refusals = append(refusals, caught)
	}
	panic(refusals[0])
}

// requireStart returns if the quote is about the start in l, and the attestation file accepts its code.
func (h *history) requireStart(l *leaf, quote, collateral []byte, code identity) {
	report := h.startReport(quote, collateral, time.UnixMicro(int64(l.number("time"))), code)
	instance, _ := hex.DecodeString(l.text("instance"))
	root := h.tree.root(h.size)
	position := append([]byte("keyhouse start v1\x00"), instance...)
	position = append(binary.BigEndian.AppendUint64(position, uint64(h.size)), root[:]...)
	report.requireBound(sha256.Sum256(h.file.root), sha256.Sum256(position), "history")
	said := identity{UniqueID: l.text("unique"), SignerID: l.text("signer")}
	same := report.is(said) && said.UniqueID != "" && said.SignerID != "" &&
		uint64(report.product()) == l.number("product") && uint64(report.version()) == l.number("svn")
	require(same && report.is(code), "history", "code that is not accepted")
}

// startReport returns what the quote of a start says, at the witnesses' time, or at the claimed time if
// the collateral had expired by then.
func (h *history) startReport(
	quote, collateral []byte, claimed time.Time, code identity,
) (found report) {
	if h.witnessed.IsZero() {
		return readQuote(quote, collateral, h.trust.vendor, &judge{"history", claimed, code})
	}
	defer func() {
		if caught := recover(); caught != nil {
			if _, is := caught.(expired); !is {
				panic(caught)
			}
			if h.witnessed.Before(claimed) {
				claimed = h.witnessed
			}
			found = readQuote(quote, collateral, h.trust.vendor, &judge{"history", claimed, code})
			h.gap("start-at-claimed-time")
		}
	}()
	return readQuote(quote, collateral, h.trust.vendor, &judge{"history", h.witnessed, code})
}

func (h *history) recover(l *leaf) {
	holders := l.fields["holders"].([]any)
	require(len(holders) > 0 && l.text("at") != "", "history", "no holder")
	for _, each := range holders {
		require(!slices.Contains(h.recovering, each.(string)), "history", "a holder twice")
		h.recovering = append(h.recovering, each.(string))
	}
	h.recoveringAt = l.text("at")
}

func (h *history) propose(l *leaf) {
	h.onBase(l)
	require(h.pending == nil, "history", "another update is pending")
	h.requireAgreed(l)
	needed := l.number("needed")
	in := h.members()
	require(needed > 0 && (in == nil || needed == in.needed()), "history", "another number")
	h.pending = &pending{l.text("manifest"), needed - 1, []string{l.text("user")}, false}
	h.older = false
	h.requirePublished(l)
}

func (h *history) approve(l *leaf) {
	p := h.pending
	if p == nil && h.older {
		p = &pending{l.text("manifest"), l.number("missing") + 1, nil, true}
	}
	require(p != nil && p.manifest == l.text("manifest"), "history", "not pending")
	h.requireAgreed(l)
	missing := p.missing
	voters := p.voters
	if !slices.Contains(voters, l.text("user")) {
		missing, voters = missing-1, append(voters, l.text("user"))
	}
	said := l.number("missing")
	require(said == missing || (p.older && said == p.missing), "history", "another number")
	if p.older {
		h.gap("agreed-before-log")
	}
	h.pending = &pending{p.manifest, said, voters, p.older}
}

func (h *history) cancel(l *leaf) {
	require(h.pending != nil || h.older, "history", "nothing is pending")
	same := h.pending == nil || h.pending.manifest == l.text("manifest")
	require(same, "history", "not pending")
	if l.text("user") != "" || l.text("certificate") != "" {
		h.requireAgreed(l)
	} else {
		require(l.text("approval") == "", "history", "an approval of nobody")
		h.gap("cancelled-by-coordinator")
	}
	if h.pending == nil {
		h.gap("agreed-before-log")
	}
	h.pending, h.older = nil, false
}

func (h *history) packages(l *leaf) {
	h.onBase(l)
	require(h.pending == nil, "history", "an update is pending")
	rows := l.fields["versions"].([]any)
	raised := map[string]uint64{}
	for _, each := range rows {
		row := each.([]any)
		version, err := strconv.ParseUint(row[1].(string), 10, 64)
		require(err == nil, "history", "a version of more than 64 bits")
		raised[row[0].(string)] = version
	}
	require(len(rows) > 0 && len(raised) == len(rows), "history", "no package, or one twice")
	h.requireAgreed(l)
	in := h.members()
	for each, version := range raised {
		least := h.versions[each]
		if in != nil {
			least = max(least, in.version(each))
		}
		require(version >= least, "history", "a lowered version")
		h.versions[each] = version
	}
	h.intermediate = l.text("intermediate")
	h.older = false
}

func (h *history) uploads(l *leaf) {
	rows := l.fields["uploads"].([]any)
	require(len(rows) > 0, "history", "no upload")
	for _, each := range rows {
		require(len(each.([]any)[2].([]any)) > 0, "history", "an upload of nothing")
	}
	in := h.members()
	if in == nil {
		h.gap("rights-unknown")
		return
	}
	for _, each := range rows {
		row := each.([]any)
		user := row[0].(string)
		in.certificate(user, row[1].(string))
		var names []string
		for _, each := range row[2].([]any) {
			names = append(names, each.(string))
		}
		in.requireAllowed(user, "WriteSecret", names...)
	}
}

func (h *history) onBase(l *leaf) {
	require(h.manifest == "" || h.manifest == l.text("base"), "history", "another base")
	h.manifest = l.text("base")
}

func (h *history) place(text string) {
	var found [2]uint64
	if text != "" {
		parts := strings.Split(text, ".")
		found[0], _ = strconv.ParseUint(parts[0], 10, 64)
		found[1], _ = strconv.ParseUint(parts[1], 10, 64)
	}
	later := found[0] > h.at[0] || (found[0] == h.at[0] && found[1] > h.at[1])
	require(!h.placed || later, "history", "the position runs back")
	h.at, h.placed = found, true
}
