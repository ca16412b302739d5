package main

import (
	"regexp"
	"strconv"
)

// The kinds of leaves that a leaf about the marble roots may follow.
var changingRoots = []string{"log-begun", "manifest-set", "manifest-updated", "packages-updated"}

var (
	plainHash = regexp.MustCompile(`^[0-9a-f]{64}$`)
	rootEnd   = regexp.MustCompile(`^[1-9][0-9]{0,15}$`)
)

// forgetRoots forgets the marble roots if the entry of this kind is behind a change of the roots, and
// cannot state them. A large package update has several entries.
func (h *history) forgetRoots(kind string) {
	if h.changesRoots && kind != "trust" && kind != "packages-updated" {
		h.roots = nil
	}
}

func (h *history) changeTrust(l *leaf) {
	var subjects [][]string
	for _, each := range l.fields["subjects"].([]any) {
		var names []string
		for _, one := range each.([]any) {
			names = append(names, one.(string))
		}
		subjects = append(subjects, names)
	}
	switch l.text("what") {
	case "revoked":
		h.forgetRoots("")
		h.revoke(l, subjects)
	case "roots":
		h.changeRoots(l, subjects)
	default:
		h.forgetRoots("")
		h.gap("trust-unknown")
	}
}

func (h *history) revoke(l *leaf, subjects [][]string) {
	require(len(subjects) == 1, "history", "a revocation of nothing, or of several things")
	subject := subjects[0]
	kind, count := subject[0], len(subject)
	hides := nameHash.MatchString(subject[count-1])
	good := kind == "workload" && count == 3 && hides || kind == "type" && count == 2 ||
		kind == "platform" && count == 2 && hides
	require(good, "history", "a revocation of nothing that is known")
	in := h.members()
	if in == nil {
		h.gap("rights-unknown")
		return
	}
	in.certificate(l.text("user"), l.text("certificate"))
	if kind != "platform" {
		in.requireAllowed(l.text("user"), "RevokeWorkload", subject[1])
		return
	}
	for each := range in.Marbles {
		in.requireAllowed(l.text("user"), "RevokeWorkload", inLeaf(each))
	}
}

func (h *history) changeRoots(l *leaf, subjects [][]string) {
	require(h.changesRoots && h.manifest != "", "history", "the roots change without a reason")
	require(l.text("user") == "" && l.text("certificate") == "", "history", "a user changes roots")
	require(len(subjects) >= 1 && len(subjects) <= 5, "history", "no root, or too many")
	roots := map[string]uint64{}
	for i, subject := range subjects {
		var end uint64
		if i == 0 {
			good := len(subject) == 2 && subject[0] == "in-force"
			require(good, "history", "no root in force")
		} else {
			good := len(subject) == 3 && subject[0] == "former" && rootEnd.MatchString(subject[2])
			require(good, "history", "a former root without an end")
			end, _ = strconv.ParseUint(subject[2], 10, 64)
		}
		root := subject[1]
		require(plainHash.MatchString(root), "history", "a root is not named by its hash")
		_, twice := roots[root]
		require(!twice, "history", "a root twice")
		if i > 0 && len(h.roots) > 0 {
			before, known := h.roots[root]
			require(known && (before == 0 || end <= before), "history", "a root is trusted longer")
		}
		roots[root] = end
	}
	h.roots = roots
}
