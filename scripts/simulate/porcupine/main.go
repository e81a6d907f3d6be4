// A second judge: gives the requests for each record to Porcupine, which searches for an order of them.
// Reads a JSON line with the requests for each record, and writes a line with its verdict.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

type fields map[string]*string

type operation struct {
	Call     float64
	Return   *float64 // Absent without a response: it may have happened at any time since, or never.
	Kind     string   // create, replayed, replace, patch, delete, cascade, read, name, or alive
	Sent     fields
	Header   string // of the precondition
	Versions []int  // of the precondition; nil for any
	Outcome  string // done, same (304), missing (404), refused (412) or unknown
	Version  int
	Fields   fields
}

const (
	absent = iota
	present
	gone
)

type state struct {
	phase   int
	version int
	fields  string // The same text for the same fields.
}

// merge returns the text of fields after a patch.
func merge(before string, patch fields) string {
	result := fields{}
	_ = json.Unmarshal([]byte(before), &result)
	for name, value := range patch {
		result[name] = value
		if value == nil {
			delete(result, name)
		}
	}
	text, _ := json.Marshal(result)
	return string(text)
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
	next, can := s, isThere && matches
	switch op.Kind {
	case "alive":
		return isThere, s
	case "replayed":
		return s.phase != absent, s
	case "name":
		// A patch with the same name changes nothing.
		return isThere && merge(s.fields, op.Fields) == s.fields, s
	case "read":
		fits := op.Version == 0 || (op.Version == s.version && matches == (op.Header != "if-none-match" || op.Versions == nil))
		return isThere && fits && merge("{}", op.Fields) == s.fields, s
	case "cascade":
		// Before its creation too: nothing is created below a record that is gone.
		next.phase = gone
		return true, next
	case "create":
		can = s.phase == absent
		next = state{present, 1, merge("{}", op.Sent)}
	case "delete":
		next.phase = gone
	case "replace":
		next.fields = merge("{}", op.Sent)
	case "patch":
		next.fields = merge(s.fields, op.Sent)
	}
	if isThere && next.fields != s.fields {
		next.version++
	}
	if op.Outcome == "unknown" {
		if can {
			return true, next
		}
		return true, s
	}
	isAnswer := op.Version == 0 || (op.Version == next.version && merge("{}", op.Fields) == next.fields)
	return can && isAnswer, next
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	model := porcupine.Model{Init: func() any { return state{} }, Step: step}
	for lines.Scan() {
		var operations []operation
		if err := json.Unmarshal(lines.Bytes(), &operations); err != nil {
			panic(err)
		}
		history := make([]porcupine.Operation, len(operations))
		for i, op := range operations {
			end := int64(math.MaxInt64)
			if op.Return != nil {
				end = int64(*op.Return * 1000)
			}
			history[i] = porcupine.Operation{ClientId: i, Input: op, Call: int64(op.Call * 1000), Return: end}
		}
		fmt.Println(porcupine.CheckOperationsTimeout(model, history, 10*time.Second))
	}
}
