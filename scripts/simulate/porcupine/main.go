// A second judge: gives the requests for each record to Porcupine, which searches for an order of them.
// Reads a JSON line with the operations of evidence.ts for each record, and writes a line with its verdict.
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

type fields map[string]any

type operation struct {
	Kind, Outcome string
	Version       int
	Row           fields
	Entry         struct {
		Start, End float64 // In ms.
		Sent       fields
		Guard      struct {
			Header  string
			Version int // 0 for any.
		}
	}
}

type state struct {
	version int    // 0 before the creation, -1 after the deletion.
	fields  string // The same text for the same fields.
}

// merge returns the text of fields after a patch.
func merge(before string, patch fields) string {
	result := fields{}
	_ = json.Unmarshal([]byte(before), &result)
	for name, value := range patch {
		result[name] = value
		if value == nil || name == "id" || name == "userId" {
			delete(result, name)
		}
	}
	text, _ := json.Marshal(result)
	return string(text)
}

func step(given, input, _ any) (bool, any) {
	s, op := given.(state), input.(operation)
	sent, guard, shown := op.Entry.Sent, op.Entry.Guard, merge("{}", op.Row)
	isThere := s.version > 0
	matches := guard.Version == 0 || guard.Version == s.version
	switch {
	case op.Outcome == "missing":
		return !isThere, s
	case op.Outcome == "refused":
		return isThere && !matches, s
	case op.Kind == "alive":
		return isThere, s
	case op.Outcome == "same":
		return isThere && matches && s.version == op.Version, s
	case op.Kind == "replayed":
		return s.version != 0, s
	case op.Kind == "name":
		// A patch with the same name changes nothing.
		return isThere && merge(s.fields, op.Row) == s.fields, s
	case op.Kind == "read":
		isMet := matches == (guard.Header != "if-none-match" || guard.Version == 0)
		isShown := op.Version == 0 || (op.Version == s.version && isMet)
		return isThere && isShown && shown == s.fields, s
	case op.Kind == "cascade":
		// Before its creation too: nothing is created below a record that is gone.
		return true, state{version: -1}
	}
	next, can := s, isThere && matches
	switch op.Kind {
	case "create":
		next, can = state{0, merge("{}", sent)}, s.version == 0
	case "delete":
		next = state{version: -1}
	case "replace":
		next.fields = merge("{}", sent)
	case "patch":
		next.fields = merge(s.fields, sent)
	}
	if op.Kind != "delete" && next.fields != s.fields {
		next.version++
	}
	if op.Outcome == "unknown" {
		if can {
			return true, next
		}
		return true, s
	}
	isShown := op.Version == 0 || (op.Version == next.version && shown == next.fields)
	return can && isShown, next
}

func main() {
	records := json.NewDecoder(os.Stdin)
	model := porcupine.Model{Init: func() any { return state{} }, Step: step}
	for records.More() {
		var operations []operation
		if err := records.Decode(&operations); err != nil {
			panic(err)
		}
		history := make([]porcupine.Operation, len(operations))
		for i, op := range operations {
			start, end := int64(math.Round(op.Entry.Start*1000)), int64(math.Round(op.Entry.End*1000))
			if op.Outcome == "unknown" {
				// It may have happened at any time since, or never.
				end = math.MaxInt64
			}
			history[i] = porcupine.Operation{ClientId: i, Input: op, Call: start, Return: end}
		}
		fmt.Println(porcupine.CheckOperationsTimeout(model, history, 10*time.Second))
	}
}
