// Answers what the tools of others make of an object: each line of standard input is a question, and each line of output its answer.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// A question: the object, and Argo CD's health script for its kind; without one, kstatus is asked. Or a report, which is read as its
// consumers read it.
type question struct {
	Object map[string]any  `json:"object"`
	Lua    string          `json:"lua"`
	Report json.RawMessage `json:"report"`
}

type answer struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		given, err := answered(lines.Bytes())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		text, _ := json.Marshal(given)
		fmt.Println(string(text))
	}
}

func answered(line []byte) (answer, error) {
	var asked question
	if err := utiljson.Unmarshal(line, &asked); err != nil {
		return answer{}, err
	}
	if asked.Report != nil {
		return report(asked.Report)
	}
	if asked.Lua != "" {
		return health(asked)
	}
	result, err := status.Compute(&unstructured.Unstructured{Object: asked.Object})
	if err != nil {
		return answer{}, err
	}
	return answer{string(result.Status), result.Message}, nil
}

// As consumers of reports do it, but for a field that they do not know, which is an error here. The status is the summary, the message
// has a line for each result.
func report(text []byte) (answer, error) {
	var read v1alpha1.Report
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		return answer{}, err
	}
	var lines []string
	for _, result := range read.Results {
		about := ""
		for _, subject := range result.Subjects {
			about += subject.Kind + "/" + subject.Name
		}
		lines = append(lines, fmt.Sprintf("%s %s/%s %s: %s", result.Result, result.Policy, result.Rule, about, result.Description))
	}
	summary, err := json.Marshal(read.Summary)
	return answer{string(summary), strings.Join(lines, "\n")}, err
}

// As Argo CD does it: the script sees the object as the global obj, and returns a table with status and message.
func health(asked question) (answer, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
	} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	state.SetGlobal("obj", value(state, asked.Object))
	if err := state.DoString(asked.Lua); err != nil {
		return answer{}, err
	}
	table, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		return answer{}, errors.New("the script returns no table")
	}
	text := func(name string) string { return lua.LVAsString(table.RawGetString(name)) }
	return answer{text("status"), text("message")}, nil
}

func value(state *lua.LState, of any) lua.LValue {
	switch of := of.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, field := range of {
			table.RawSetString(key, value(state, field))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, item := range of {
			table.Append(value(state, item))
		}
		return table
	case string:
		return lua.LString(of)
	case bool:
		return lua.LBool(of)
	case int64:
		return lua.LNumber(of)
	case float64:
		return lua.LNumber(of)
	default:
		return lua.LNil
	}
}
