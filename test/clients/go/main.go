// github.com/sashabaranov/go-openai: chat, a stream, its errors, a stream that is left.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"
)

const (
	model  = "m"
	aborts = `understudy_requests_total{outcome="abort"}`
)

var (
	url    = os.Args[1]
	client = newClient()
	seed   = 1
)

func newClient() *openai.Client {
	config := openai.DefaultConfig("none")
	config.BaseURL = os.Args[1] + "/v1"
	return openai.NewClientWithConfig(config)
}

func hello(tokens int) openai.ChatCompletionRequest {
	messages := []openai.ChatCompletionMessage{{Role: "user", Content: "Hello, who are you?"}}
	return openai.ChatCompletionRequest{Model: model, Messages: messages, MaxTokens: tokens, Seed: &seed}
}

// One sample of the server's own page.
func sample(series string) (float64, error) {
	page, err := http.Get(url + "/metrics")
	if err != nil {
		return 0, err
	}
	defer page.Body.Close()
	for lines := bufio.NewScanner(page.Body); lines.Scan(); {
		if line := lines.Text(); strings.HasPrefix(line, series) {
			return strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
		}
	}
	return 0, fmt.Errorf("no %s", series)
}

// The stream's text, and its last usage.
func streamed(request openai.ChatCompletionRequest) (string, *openai.Usage, error) {
	stream, err := client.CreateChatCompletionStream(context.Background(), request)
	if err != nil {
		return "", nil, err
	}
	defer stream.Close()
	var text strings.Builder
	var usage *openai.Usage
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return text.String(), usage, nil
		}
		if err != nil {
			return "", nil, err
		}
		if chunk.Usage != nil {
			usage = chunk.Usage
		}
		for _, choice := range chunk.Choices {
			text.WriteString(choice.Delta.Content)
		}
	}
}

func results() error {
	whole, err := client.CreateChatCompletion(context.Background(), hello(20))
	if err != nil {
		return err
	}
	text, _, err := streamed(hello(20))
	if err != nil {
		return err
	}
	if said := whole.Choices[0].Message.Content; said == "" || said != text {
		return fmt.Errorf("whole %q, streamed %q", said, text)
	}
	return nil
}

func usage() error {
	request := hello(9)
	request.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
	_, used, err := streamed(request)
	if err != nil {
		return err
	}
	if used == nil || used.CompletionTokens < 1 || used.CompletionTokens > 9 ||
		used.TotalTokens != used.PromptTokens+used.CompletionTokens {
		return fmt.Errorf("usage %+v", used)
	}
	return nil
}

func failures() error {
	request := hello(5)
	request.Model = "nobody"
	_, err := client.CreateChatCompletion(context.Background(), request)
	var missing *openai.APIError
	if !errors.As(err, &missing) || missing.HTTPStatusCode != 404 || missing.Type != "NotFoundError" {
		return fmt.Errorf("no such model: %#v", err)
	}
	request = hello(5)
	request.TopP = 3
	_, err = client.CreateChatCompletionStream(context.Background(), request)
	var bad *openai.APIError
	if !errors.As(err, &bad) || bad.HTTPStatusCode != 400 || bad.Param == nil || *bad.Param != "top_p" {
		return fmt.Errorf("top_p of 3: %#v", err)
	}
	return nil
}

// What the client leaves must end on the server: nothing runs any more, and one abort more is counted.
func leaves() error {
	before, err := sample(aborts)
	if err != nil {
		return err
	}
	stream, err := client.CreateChatCompletionStream(context.Background(), hello(5000))
	if err != nil {
		return err
	}
	for range 3 {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
	stream.Close()
	for range 300 {
		running, err := sample("vllm:num_requests_running")
		if err != nil {
			return err
		}
		if count, err := sample(aborts); err == nil && running == 0 && count == before+1 {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("the request goes on")
}

func main() {
	checks := []struct {
		name string
		work func() error
	}{{"results", results}, {"usage", usage}, {"errors", failures}, {"aborts", leaves}}
	for _, one := range checks {
		line := map[string]string{"check": one.name}
		if err := one.work(); err != nil {
			line["error"] = err.Error()
		}
		json.NewEncoder(os.Stdout).Encode(line)
	}
}
