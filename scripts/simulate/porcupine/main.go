// A second judge: gives the requests for each record to Porcupine, which searches for an order of them.
// Reads a JSON line with the requests for each record, and writes a line with its verdict.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

type fields map[string]*string

type operation struct {
	Call, Return  int64
	Kind, Outcome string // As in evidence.ts.
	Sent, Fields  fields
	Header        string // Of the precondition.
	Versions      []int  // Of the precondition; nil for any.
	Version       int
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
		if value == nil {
			delete(result, name)
		}
	}
	text, _ := json.Marshal(result)
	return string(text)
}

func step(given, input, _ any) (bool, any) {
	s, op := given.(state), input.(operation)
	isThere := s.version > 0
	matches := op.Versions == nil || slices.Contains(op.Versions, s.version)
	switch {
	case op.Outcome == "missing":
		return !isThere, s
	case op.Outcome == "refused":
		return isThere && !matches, s
	case op.Outcome == "same":
		return isThere && matches && s.version == op.Version, s
	case op.Kind == "alive":
		return isThere, s
	case op.Kind == "replayed":
		return s.version != 0, s
	case op.Kind == "name":
		// A patch with the same name changes nothing.
		return isThere && merge(s.fields, op.Fields) == s.fields, s
	case op.Kind == "read":
		isMet := matches == (op.Header != "if-none-match" || op.Versions == nil)
		isShown := op.Version == 0 || (op.Version == s.version && isMet)
		return isThere && isShown && merge("{}", op.Fields) == s.fields, s
	case op.Kind == "cascade":
		// Before its creation too: nothing is created below a record that is gone.
		return true, state{version: -1}
	}
	next, can := s, isThere && matches
	switch op.Kind {
	case "create":
		next, can = state{0, merge("{}", op.Sent)}, s.version == 0
	case "delete":
		next = state{version: -1}
	case "replace":
		next.fields = merge("{}", op.Sent)
	case "patch":
		next.fields = merge(s.fields, op.Sent)
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
	isShown := op.Version == 0 || (op.Version == next.version && merge("{}", op.Fields) == next.fields)
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
			history[i] = porcupine.Operation{ClientId: i, Input: op, Call: op.Call, Return: op.Return}
		}
		fmt.Println(porcupine.CheckOperationsTimeout(model, history, 10*time.Second))
	}
}
