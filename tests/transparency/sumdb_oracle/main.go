// Compares what Keyhouse made and decided about trees and notes with golang.org/x/mod/sumdb.
// Reads questions with Keyhouse's answers, one JSON object on a line, from the file that is named;
// prints each that sumdb answers differently, and at the end how many there were.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type question struct {
	Kind    string // tree, inclusion, consistency, note, path
	Size    int64
	Old     int64 // the index of an inclusion proof
	Leaf    []byte
	Root    []byte
	OldRoot []byte
	Proof   [][]byte
	Made    bool // the proof is one that Keyhouse made, so sumdb makes the same
	Holds   bool // what Keyhouse decided
	Text    []byte
	Key     string
}

// The tree whose leaf i is the number i in decimal.
var stored []tlog.Hash

var reader = tlog.HashReaderFunc(func(places []int64) ([]tlog.Hash, error) {
	found := make([]tlog.Hash, len(places))
	for i, place := range places {
		found[i] = stored[place]
	}
	return found, nil
})

func grow(size int64) {
	for n := tlogLeaves; n < size; n++ {
		more, err := tlog.StoredHashes(n, []byte(fmt.Sprint(n)), reader)
		if err != nil {
			panic(err)
		}
		stored = append(stored, more...)
	}
	if size > tlogLeaves {
		tlogLeaves = size
	}
}

var tlogLeaves int64

func hash(raw []byte) (found tlog.Hash) {
	copy(found[:], raw)
	return
}

func hashes(raw [][]byte) []tlog.Hash {
	found := make([]tlog.Hash, len(raw))
	for i := range raw {
		found[i] = hash(raw[i])
	}
	return found
}

func equal(made []tlog.Hash, given [][]byte) bool {
	if len(made) != len(given) {
		return false
	}
	for i := range made {
		if !bytes.Equal(made[i][:], given[i]) {
			return false
		}
	}
	return true
}

func agrees(q question) bool {
	switch q.Kind {
	case "tree":
		grow(q.Size)
		root, err := tlog.TreeHash(q.Size, reader)
		return err == nil && bytes.Equal(root[:], q.Root)
	case "inclusion":
		if q.Made {
			proof, err := tlog.ProveRecord(q.Size, q.Old, reader)
			if err != nil || !equal(proof, q.Proof) {
				return false
			}
		}
		err := tlog.CheckRecord(hashes(q.Proof), q.Size, hash(q.Root), q.Old, hash(q.Leaf))
		return (err == nil) == q.Holds
	case "consistency":
		if q.Made {
			proof, err := tlog.ProveTree(q.Size, q.Old, reader)
			if err != nil || !equal(proof, q.Proof) {
				return false
			}
		}
		err := tlog.CheckTree(hashes(q.Proof), q.Size, hash(q.Root), q.Old, hash(q.OldRoot))
		return (err == nil) == q.Holds
	case "note": // sumdb takes more spellings of base64, so only what Keyhouse takes is compared
		verifier, err := note.NewVerifier(q.Key)
		if err != nil {
			return false
		}
		_, err = note.Open(q.Text, note.VerifierList(verifier))
		return err == nil || !q.Holds
	case "path":
		tile, err := tlog.ParseTilePath("tile/8/" + string(q.Text))
		same := err == nil && tile.Path() == "tile/8/"+string(q.Text)
		return (same && tile.L <= 63) == q.Holds
	}
	return false
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	asked := 0
	for lines.Scan() {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			panic(err)
		}
		asked++
		if !agrees(q) {
			fmt.Println(lines.Text())
		}
	}
	if lines.Err() != nil {
		panic(lines.Err())
	}
	fmt.Println("asked", asked)
}
