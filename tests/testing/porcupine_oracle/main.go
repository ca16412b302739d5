// Judges histories with porcupine, as a second opinion beside tests/support/replicas/linearizability.py.
// Reads histories, one JSON object on a line, from the file that is named; prints for each, in their
// order: Ok, Illegal, or Unknown where the time did not suffice.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const patience = 10 * time.Second

type call struct {
	What     string
	Argument any
	Result   any
	Told     bool // the result is known
	Began    float64
	Ended    *float64 // null: never
}

type history struct {
	Kind    string // register, highest, count, permission
	Initial any
	Limit   float64 // of a count
	Calls   []call
}

func (h history) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return h.Initial },
		Step: func(state, input, _ any) (bool, any) {
			c := input.(call)
			right := func(result any) bool { return !c.Told || c.Result == result }
			switch h.Kind + " " + c.What {
			case "register write":
				return true, c.Argument
			case "register read", "highest read", "count read", "permission use":
				return right(state), state
			case "highest raise":
				return right(state), math.Max(state.(float64), c.Argument.(float64))
			case "count take":
				taken := state.(float64)
				return right(taken < h.Limit), math.Min(taken+1, h.Limit)
			case "permission give":
				return true, true
			case "permission revoke":
				return true, false
			}
			panic("unknown: " + h.Kind + " " + c.What)
		},
	}
}

func (h history) operations() []porcupine.Operation {
	found := make([]porcupine.Operation, len(h.Calls))
	for i, c := range h.Calls {
		// One client for each: porcupine looks at the times alone.
		found[i] = porcupine.Operation{ClientId: i, Input: c, Call: moment(c.Began), Return: math.MaxInt64}
		if c.Ended != nil {
			found[i].Return = moment(*c.Ended)
		}
	}
	return found
}

// moment returns a time of Python, seconds or a count, in steps of a nanosecond.
func moment(at float64) int64 {
	return int64(math.Round(at * 1e9))
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var h history
		if err := json.Unmarshal(lines.Bytes(), &h); err != nil {
			panic(err)
		}
		fmt.Println(porcupine.CheckOperationsTimeout(h.model(), h.operations(), patience))
	}
	if lines.Err() != nil {
		panic(lines.Err())
	}
}
