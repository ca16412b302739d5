package main

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// A written is JSON as it was written: members of objects in their order, repeated ones, too.
type written struct {
	members []member // of an object
	items   []written
	kind    byte // { [ or 0: a value
}

type member struct {
	name  string
	value written
}

func readDocument(raw []byte) written {
	require(utf8.Valid(raw), "history", "an object is not UTF-8")
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	found := readValue(decoder)
	_, err := decoder.Token()
	require(err == io.EOF, "history", "more than one JSON value")
	require(found.kind == '{', "history", "an object is no manifest")
	return found
}

func readValue(decoder *json.Decoder) written {
	token, err := decoder.Token()
	require(err == nil, "history", "an object is not JSON")
	switch token {
	case json.Delim('{'):
		found := written{kind: '{'}
		for decoder.More() {
			named, err := decoder.Token()
			require(err == nil, "history", "an object is not JSON")
			found.members = append(found.members, member{named.(string), readValue(decoder)})
		}
		_, err = decoder.Token()
		require(err == nil, "history", "an object is not JSON")
		return found
	case json.Delim('['):
		found := written{kind: '['}
		for decoder.More() {
			found.items = append(found.items, readValue(decoder))
		}
		_, err = decoder.Token()
		require(err == nil, "history", "an object is not JSON")
		return found
	}
	return written{}
}

// The fields of parts of manifests that say who may do what, in lower case.
var fields = map[string][]string{
	"": {
		"packages", "infrastructures", "marbles", "secrets", "users", "roles", "recoverykeys", "tls", "config",
	},
	"users": {"certificate", "roles"},
	"roles": {"resourcetype", "resourcenames", "actions"},
	"config": {
		"sealmode", "featuregates", "updatethreshold", "recoverythreshold", "rotaterootsecret", "replicas",
		"transparency",
	},
}

// requireForm returns if fields are known, and no name is given twice, in whatever case.
func (d written) requireForm() {
	d.requireOnce(true)
	d.requireKnown("")
	for _, section := range d.members {
		named := strings.ToLower(section.name)
		switch named {
		case "config":
			section.value.requireOnce(true)
			section.value.requireKnown(named)
			for _, each := range section.value.members {
				each.value.requireOnce(true)
			}
		case "users", "roles":
			section.value.requireOnce(false) // names that people chose: their case counts
			for _, each := range section.value.members {
				each.value.requireOnce(true)
				each.value.requireKnown(named)
			}
		default:
			section.value.requireOnce(false)
			for _, each := range section.value.members {
				each.value.requireOnce(true)
			}
		}
	}
}

func (d written) requireOnce(fold bool) {
	known := map[string]bool{}
	for _, each := range d.members {
		named := each.name
		if fold {
			named = strings.ToLower(named)
		}
		require(!known[named], "history", "%s is given twice", named)
		known[named] = true
	}
}

func (d written) requireKnown(part string) {
	for _, each := range d.members {
		require(slices.Contains(fields[part], strings.ToLower(each.name)), "history", "the unknown field %s", each.name)
	}
}
