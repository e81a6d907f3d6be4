// A second judge: gives the requests for each record to Porcupine, which searches for an order of them.
// Reads a JSON line for each record, and writes one with its verdict.
package main

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

type fields map[string]*string

type operation struct {
	Client   int
	Call     float64
	Return   *float64 // Absent when no response came: it may have happened at any time since, or never.
	Kind     string   // create, replayed, replace, patch, delete, cascade, read, name, or alive
	Sent     fields
	Header   string // of the precondition
	Versions []int  // of the precondition; nil for any
	Outcome  string // done, same (304), missing (404), refused (412) or unknown
	Version  int
	Fields   fields
}

type record struct {
	Record     string
	Operations []operation
}

// A record is not there yet, there, or gone.
type state struct {
	phase   int
	version int
	fields  string
}

const (
	absent = iota
	present
	gone
)

// canonical is the same text for the same fields.
func canonical(given fields) string {
	kept := fields{}
	for name, value := range given {
		if value != nil {
			kept[name] = value
		}
	}
	text, _ := json.Marshal(kept)
	return string(text)
}

func (s state) apply(op operation) state {
	result := fields{}
	if op.Kind == "patch" {
		_ = json.Unmarshal([]byte(s.fields), &result)
	}
	for name, value := range op.Sent {
		result[name] = value
	}
	changed := canonical(result)
	if changed != s.fields {
		s.version++
	}
	s.fields = changed
	return s
}

func step(given, input, _ any) (bool, any) {
	s, op := given.(state), input.(operation)
	isThere := s.phase == present
	matches := op.Versions == nil || slices.Contains(op.Versions, s.version)
	switch op.Outcome {
	case "missing":
		return !isThere, s
	case "refused":
		return isThere && !matches, s
	case "same":
		return isThere && matches && s.version == op.Version, s
	}
	isKnown := op.Outcome == "done"
	next, can := s, isThere
	switch op.Kind {
	case "create":
		can = s.phase == absent
		next = state{present, 1, canonical(op.Sent)}
	case "replayed":
		return s.phase != absent, s
	case "replace", "patch":
		can = isThere && matches
		next = s.apply(op)
	case "delete":
		can = isThere && matches
		next.phase = gone
	case "cascade":
		// Before its creation too: nothing is created below a record that is gone.
		next.phase = gone
		return true, next
	case "read":
		fits := op.Version == 0 || (op.Version == s.version && matches == (op.Header != "if-none-match" || op.Versions == nil))
		return isThere && fits && canonical(op.Fields) == s.fields, s
	case "name":
		seen := fields{}
		_ = json.Unmarshal([]byte(s.fields), &seen)
		return isThere && seen["name"] != nil && *seen["name"] == *op.Fields["name"], s
	case "alive":
		return isThere, s
	}
	if !isKnown {
		if can {
			return true, next
		}
		return true, s
	}
	isAnswer := op.Version == 0 || (op.Version == next.version && canonical(op.Fields) == next.fields)
	return can && isAnswer, next
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	model := porcupine.Model{Init: func() any { return state{} }, Step: step}
	for lines.Scan() {
		var one record
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			panic(err)
		}
		history := make([]porcupine.Operation, len(one.Operations))
		for i, op := range one.Operations {
			end := int64(math.MaxInt64)
			if op.Return != nil {
				end = int64(*op.Return * 1000)
			}
			history[i] = porcupine.Operation{ClientId: i, Input: op, Call: int64(op.Call * 1000), Return: end}
		}
		result := porcupine.CheckOperationsTimeout(model, history, 10*time.Second)
		_ = out.Encode(map[string]string{"record": one.Record, "verdict": string(result)})
	}
}
