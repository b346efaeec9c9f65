// openai-go and go-openai as clients of `understudy stress` that stay alive (understudy-client/1): which one, says the first argument.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
)

type asked struct {
	BaseURL   string            `json:"baseUrl"`
	Model     string            `json:"model"`
	TimeoutMs int               `json:"timeoutMs"`
	Tools     []json.RawMessage `json:"tools"`
}

type call struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type usage struct {
	Prompt     int64 `json:"prompt"`
	Completion int64 `json:"completion"`
}

type failure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Own     bool   `json:"own"`
}

// What an answer has said so far, and stays what it said where an error ends it.
type seen struct {
	Text   string   `json:"text"`
	Finish *string  `json:"finish"`
	Usage  *usage   `json:"usage"`
	Calls  []call   `json:"toolCalls"`
	Error  *failure `json:"error"`
	byID   map[int64]*call
}

func (s *seen) call(index int64, name, arguments string) {
	if s.byID == nil {
		s.byID = map[int64]*call{}
	}
	if s.byID[index] == nil {
		s.byID[index] = &call{}
	}
	// A name that comes again is the same name.
	if name != s.byID[index].Name {
		s.byID[index].Name += name
	}
	s.byID[index].Arguments += arguments
}

func (s *seen) finish(reason string) {
	if reason != "" {
		s.Finish = &reason
	}
}

func (s *seen) line(err error, own bool) []byte {
	indexes := []int64{}
	for index := range s.byID {
		indexes = append(indexes, index)
	}
	sort.Slice(indexes, func(a, b int) bool { return indexes[a] < indexes[b] })
	for _, index := range indexes {
		s.Calls = append(s.Calls, *s.byID[index])
	}
	if err != nil {
		message := err.Error()
		if len(message) > 300 {
			message = message[:300]
		}
		s.Error = &failure{Kind: fmt.Sprintf("%T", err), Message: message, Own: own}
	}
	text, _ := json.Marshal(s)
	return append(text, '\n')
}

func main() {
	clients := map[string]func(asked, *seen) (error, bool){"openai-go": official, "go-openai": community}
	ask := clients[os.Args[1]]
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var one asked
		if err := json.Unmarshal(line, &one); err != nil {
			panic(err)
		}
		var answer seen
		failed, own := ask(one, &answer)
		os.Stdout.Write(answer.line(failed, own))
	}
}
