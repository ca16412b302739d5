package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"slices"
)

const approvalType = "application/vnd.keyhouse.approval.v1+json"

var envelope = with(map[string]check{
	"payload": base64Text, "payloadType": func(value any) bool { return value == approvalType },
	"signatures": row(with(map[string]check{"sig": base64Text})),
})

var approvalForm = with(map[string]check{
	"v":      func(value any) bool { return whole(1)(value) && number(value) == 1 },
	"origin": line, "root": hash, "user": person, "base": hash, "manifest": hash,
	"decision": func(value any) bool {
		return slices.Contains([]any{"propose", "approve", "cancel", "packages"}, value)
	},
	"plan": hashOrNone, "time": count, "head": with(map[string]check{"size": count, "root": hash}),
})

var decisions = map[string]string{
	"update-proposed": "propose", "update-approved": "approve", "update-cancelled": "cancel",
	"packages-updated": "packages",
}

// readApproval returns the approval in raw, which the key of the certificate signed.
func readApproval(raw []byte, certificate *x509.Certificate) object {
	found := canonical(raw)
	require(len(raw) <= 16384 && envelope(found), "history", "no approval")
	payload, _ := bytesIn(found.(object)["payload"])
	said := canonical(payload)
	require(approvalForm(said), "history", "no approval")
	message := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(approvalType), approvalType, len(payload), payload)
	signature, _ := bytesIn(found.(object)["signatures"].([]any)[0].(object)["sig"])
	sum := sha256.Sum256(message)
	good := false
	switch key := certificate.PublicKey.(type) {
	case *ecdsa.PublicKey:
		good = ecdsa.VerifyASN1(key, sum[:], signature)
	case ed25519.PublicKey:
		good = ed25519.Verify(key, message, signature)
	case *rsa.PublicKey:
		options := &rsa.PSSOptions{SaltLength: sha256.Size}
		good = rsa.VerifyPSS(key, crypto.SHA256, sum[:], signature, options) == nil
	}
	require(good, "history", "not signed by the user")
	return said.(object)
}

// requireAgreed returns if the user of l may decide what it says, and signed it if anything says so.
func (h *history) requireAgreed(l *leaf) {
	approval := l.text("approval")
	if approval != "" {
		h.object(approval)
	}
	in := h.members()
	if in == nil {
		h.gap("not-signed")
		h.gap("rights-unknown")
		return
	}
	certificate := in.certificate(l.text("user"), l.text("certificate"))
	if l.kind == "packages-updated" {
		var packages []string
		for _, each := range l.fields["versions"].([]any) {
			packages = append(packages, each.([]any)[0].(string))
		}
		in.requireAllowed(l.text("user"), "UpdateSecurityVersion", packages...)
	} else {
		in.requireAllowed(l.text("user"), "UpdateManifest")
	}
	demanded := in.Config.Transparency.SignedApprovals
	require(!demanded || approval != "", "history", "signing is demanded")
	if approval == "" {
		h.gap("not-signed")
		return
	}
	h.requireSigned(l, readApproval(h.object(approval), certificate))
}

func (h *history) requireSigned(l *leaf, said object) {
	wanted := map[string]any{
		"decision": decisions[l.kind], "user": l.text("user"), "origin": h.file.origin,
		"root": name(h.file.root), "base": h.manifest,
	}
	if l.kind != "packages-updated" {
		wanted["manifest"] = l.text("manifest")
	}
	if l.kind != "update-cancelled" {
		wanted["plan"] = l.text("plan")
	}
	for field, value := range wanted {
		require(said[field] == value, "history", "signed another %s", field)
	}
	head := said["head"].(object)
	size := number(head["size"])
	require(size >= h.neededHead(l) && size <= uint64(h.size), "history", "another place")
	root := h.tree.root(int(size))
	require(hex.EncodeToString(root[:]) == head["root"], "history", "another history")
	if l.kind != "packages-updated" {
		return
	}
	signed := readUpdate(h.object(said["manifest"].(string)))
	for _, each := range l.fields["versions"].([]any) {
		row := each.([]any)
		version := fmt.Sprint(signed.version(row[0].(string)))
		require(version == row[1], "history", "signed another version")
	}
}
