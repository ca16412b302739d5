package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

type object = map[string]any

// canonical returns the value in raw if raw is its one text; nil otherwise.
func canonical(raw []byte) any {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return nil
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil
	}
	if !bytes.Equal(encoded(nil, value), raw) {
		return nil
	}
	return value
}

func encoded(to []byte, value any) []byte {
	switch value := value.(type) {
	case nil:
		return append(to, "null"...)
	case bool:
		return strconv.AppendBool(to, value)
	case json.Number:
		return append(to, value...)
	case string:
		return quoted(to, value)
	case []any:
		to = append(to, '[')
		for i, each := range value {
			if i > 0 {
				to = append(to, ',')
			}
			to = encoded(to, each)
		}
		return append(to, ']')
	}
	fields := value.(object)
	names := make([]string, 0, len(fields))
	for each := range fields {
		names = append(names, each)
	}
	sort.Strings(names)
	to = append(to, '{')
	for i, each := range names {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(quoted(to, each), ':')
		to = encoded(to, fields[each])
	}
	return append(to, '}')
}

var short = map[byte]string{
	'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`,
}

func quoted(to []byte, text string) []byte {
	to = append(to, '"')
	for i := 0; i < len(text); i++ {
		if escape, there := short[text[i]]; there {
			to = append(to, escape...)
		} else if text[i] < 0x20 {
			to = fmt.Appendf(to, `\u%04x`, text[i])
		} else {
			to = append(to, text[i])
		}
	}
	return append(to, '"')
}

// A check tells whether a value is one that a field may have.
type check = func(any) bool

func matching(pattern string) check {
	compiled := regexp.MustCompile(pattern)
	return func(value any) bool {
		text, is := value.(string)
		return is && compiled.MatchString(text)
	}
}

func whole(most uint64) check {
	return func(value any) bool {
		number, is := value.(json.Number)
		if !is || !digits.MatchString(string(number)) {
			return false
		}
		found, err := strconv.ParseUint(string(number), 10, 64)
		return err == nil && found <= most
	}
}

func listOf(item check) check {
	return func(value any) bool {
		list, is := value.([]any)
		for _, each := range list {
			if !item(each) {
				return false
			}
		}
		return is
	}
}

func row(columns ...check) check {
	return func(value any) bool {
		list, is := value.([]any)
		if !is || len(list) != len(columns) {
			return false
		}
		for i, column := range columns {
			if !column(list[i]) {
				return false
			}
		}
		return true
	}
}

func either(a, b check) check { return func(value any) bool { return a(value) || b(value) } }
func null(value any) bool     { return value == nil }

// with tells whether value is an object with exactly these fields.
func with(fields map[string]check) check {
	return func(value any) bool {
		found, is := value.(object)
		if !is || len(found) != len(fields) {
			return false
		}
		for each, holds := range fields {
			if content, there := found[each]; !there || !holds(content) {
				return false
			}
		}
		return true
	}
}

func text(most int) check {
	return func(value any) bool {
		found, is := value.(string)
		return is && utf8.RuneCountInString(found) <= most
	}
}

// person tells whether value is a name as a leaf writes it.
func person(value any) bool {
	found, is := value.(string)
	hashed := strings.HasPrefix(found, "sha256:")
	return is && len(found) <= 512 && (!hashed || nameHash.MatchString(found))
}

func bytesIn(value any) ([]byte, bool) {
	encoded, is := value.(string)
	if !is {
		return nil, false
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	return raw, err == nil && base64.StdEncoding.EncodeToString(raw) == encoded
}

func base64Text(value any) bool {
	_, is := bytesIn(value)
	return is
}

var (
	digits     = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)
	small      = whole(1<<16 - 1)
	count      = whole(1<<53 - 1)
	hash       = matching(`^[0-9a-f]{64}$`)
	hashOrNone = matching(`^([0-9a-f]{64})?$`)
	random     = matching(`^[0-9a-f]{32}$`)
	place      = matching(`^([1-9][0-9]{0,18}\.[1-9][0-9]{0,18}\.[0-9a-f]{64})?$`)
	line       = matching(`^[^\x00-\x1f]{1,255}$`)
	word       = matching(`^[a-z][a-z-]{0,31}$`)
	nameHash   = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)
