package main

import (
	"encoding/json"
	"maps"
)

var recovery = either(null, with(map[string]check{"holders": count, "threshold": count}))
var previous = either(null, with(map[string]check{
	"origin": line, "size": count, "root": hash,
	"reason": func(value any) bool { return value != "" && text(1024)(value) },
}))
var userOrNobody = map[string]check{"user": person, "certificate": hashOrNone}
var decided = map[string]check{
	"user": person, "certificate": hash, "plan": hashOrNone, "approval": hashOrNone,
}
var decimal = matching(`^(0|[1-9][0-9]{0,19})$`)

// Fields that leaves of newer versions have; those of older versions lack them.
var optional = map[string]map[string]check{
	"log-begun":        {"manifest": hash, "intermediate": hash, "public": boolean},
	"manifest-set":     {"public": boolean},
	"update-proposed":  {"public": boolean},
	"manifest-updated": {"public": boolean},
}

// subject tells whether value is a list of names that is not empty.
func subject(value any) bool { return listOf(person)(value) && len(value.([]any)) > 0 }

func boolean(value any) bool { _, is := value.(bool); return is }

// The fields of each kind of leaf, beside kind, time and v.
var kinds = map[string]map[string]check{
	"log-begun": {
		"origin": line, "root": hash, "key": line, "platform": line, "previous": previous,
		"imported": hashOrNone,
	},
	"manifest-set": {"manifest": hash, "intermediate": hash, "recovery": recovery},
	"started": {
		"at": place, "instance": random, "version": line, "platform": line, "unique": hashOrNone,
		"signer": hashOrNone, "product": small, "svn": small, "quote": hashOrNone,
		"collateral": hashOrNone,
	},
	"recovered":       {"at": place, "holders": listOf(person)},
	"update-proposed": both(decided, map[string]check{"base": hash, "manifest": hash, "needed": count}),
	"update-approved": both(decided, map[string]check{"manifest": hash, "missing": count}),
	"update-cancelled": both(userOrNobody, map[string]check{
		"manifest": hash, "approval": hashOrNone,
	}),
	"manifest-updated": {"base": hash, "manifest": hash, "intermediate": hash, "recovery": recovery},
	"packages-updated": both(decided, map[string]check{
		"base": hash, "versions": listOf(row(person, decimal)), "intermediate": hash,
	}),
	"secrets-uploaded": {"uploads": listOf(row(person, hash, listOf(person)))},
	"trust": {
		"what": word, "user": person, "certificate": hashOrNone, "subjects": listOf(subject),
	},
	"anchor": {"at": place, "nonce": random, "activations": hashOrNone},
}

func both(a, b map[string]check) map[string]check {
	found := maps.Clone(a)
	maps.Copy(found, b)
	return found
}

// A leaf, whose fields have been checked.
type leaf struct {
	kind   string
	fields object
}

// readLeaf returns the leaf in raw; nil if it is none that this version knows, in its one form.
func readLeaf(raw []byte) *leaf {
	if len(raw) > 8192 {
		return nil
	}
	fields, is := canonical(raw).(object)
	kind, named := fields["kind"].(string)
	known, there := kinds[kind]
	if !is || !named || !there {
		return nil
	}
	all := both(known, map[string]check{
		"kind": func(any) bool { return true },
		"time": count,
		"v":    func(value any) bool { return value == json.Number("1") },
	})
	for each, holds := range optional[kind] {
		if _, there := fields[each]; there {
			all[each] = holds
		}
	}
	if !with(all)(fields) {
		return nil
	}
	return &leaf{kind, fields}
}

func (l *leaf) text(field string) string {
	found, _ := l.fields[field].(string)
	return found
}

func (l *leaf) number(field string) uint64 { return number(l.fields[field]) }

// public tells whether the manifest of a leaf is public; said, whether the leaf states that at all.
func (l *leaf) public() (public, said bool) {
	public, said = l.fields["public"].(bool)
	return public, said
}

func (l *leaf) isNull(field string) bool { return l.fields[field] == nil }
