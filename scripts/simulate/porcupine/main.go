// A second judge: gives the requests for each record to Porcupine, which searches for an order of them.
// Reads a JSON line with the operations of evidence.ts for each record, and writes a line with its verdict.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"time"

	"github.com/anishathalye/porcupine"
)

type fields map[string]any

type operation struct {
	Kind    string
	Version int
	Row     fields
	Unknown bool // Whether it may have happened or not.
	Entry   struct {
		Start, End float64 // In ms.
		Status     int     // 0 without a response.
		Sent       fields
		Guard      struct {
			Header  string
			Version int // 0 for any.
		}
	}
}

type state struct {
	version int // 0 before the creation, -1 after the deletion.
	fields  fields
}

// merge returns fields after a patch.
func merge(before, patch fields) fields {
	after := fields{}
	maps.Copy(after, before)
	maps.Copy(after, patch)
	maps.DeleteFunc(after, func(name string, value any) bool {
		return value == nil || name == "id" || name == "userId"
	})
	return after
}

func step(given, input, _ any) (bool, any) {
	s, op := given.(state), input.(operation)
	sent, guard, shown := op.Entry.Sent, op.Entry.Guard, merge(nil, op.Row)
	isThere := s.version > 0
	matches := guard.Version == 0 || guard.Version == s.version
	switch {
	case op.Entry.Status == 404:
		return !isThere, s
	case op.Entry.Status == 412:
		return isThere && !matches, s
	case op.Kind == "replayed":
		return s.version != 0, s
	case op.Kind == "cascade":
		// Before its creation too: nothing is created below a record that is gone.
		return true, state{version: -1}
	case op.Kind == "alive" || op.Kind == "call":
		// A patch with the name that the call shows changes nothing.
		return isThere && maps.Equal(merge(s.fields, op.Row), s.fields), s
	case op.Entry.Status == 304:
		return isThere && matches && s.version == op.Version, s
	}
	next, can := s, isThere && matches
	switch op.Kind {
	case "create":
		next, can = state{0, merge(nil, sent)}, s.version == 0
	case "delete":
		next = state{version: -1}
	case "replace":
		next.fields = merge(nil, sent)
	case "patch":
		next.fields = merge(s.fields, sent)
	default:
		can = isThere && matches == (guard.Header != "if-none-match" || guard.Version == 0)
	}
	if op.Kind != "delete" && !maps.Equal(next.fields, s.fields) {
		next.version++
	}
	if op.Unknown && !can {
		return true, s
	}
	isShown := maps.Equal(shown, next.fields) && (op.Version == 0 || op.Version == next.version)
	return can && (op.Unknown || op.Kind == "delete" || isShown), next
}

func main() {
	records := json.NewDecoder(os.Stdin)
	model := porcupine.Model{Init: func() any { return state{} }, Step: step, Equal: reflect.DeepEqual}
	for records.More() {
		var operations []operation
		if err := records.Decode(&operations); err != nil {
			panic(err)
		}
		history := make([]porcupine.Operation, len(operations))
		for i, op := range operations {
			start, end := int64(math.Round(op.Entry.Start*1000)), int64(math.Round(op.Entry.End*1000))
			op.Unknown = op.Entry.Status == 0 || op.Entry.Status >= 500
			if op.Unknown {
				// It may have happened at any time since, or never.
				end = math.MaxInt64
			}
			history[i] = porcupine.Operation{ClientId: i, Input: op, Call: start, Return: end}
		}
		fmt.Println(porcupine.CheckOperationsTimeout(model, history, 10*time.Second))
	}
}
