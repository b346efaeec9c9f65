package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	openai "github.com/sashabaranov/go-openai"
)

// go-openai: its stream. It has no timeout of its own: a context has.
func community(one asked, answer *seen) (error, bool) {
	config := openai.DefaultConfig("none")
	config.BaseURL = one.BaseURL
	client := openai.NewClientWithConfig(config)
	bounded, cancel := context.WithTimeout(context.Background(), time.Duration(one.TimeoutMs)*time.Millisecond)
	defer cancel()
	request := openai.ChatCompletionRequest{
		Model:         one.Model,
		Messages:      []openai.ChatCompletionMessage{{Role: "user", Content: "Say it"}},
		StreamOptions: &openai.StreamOptions{IncludeUsage: true},
	}
	for _, tool := range one.Tools {
		var offered openai.Tool
		if err := json.Unmarshal(tool, &offered); err != nil {
			return err, false
		}
		request.Tools = append(request.Tools, offered)
	}
	stream, err := client.CreateChatCompletionStream(bounded, request)
	if err != nil {
		return err, isOwn(err)
	}
	defer stream.Close()
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, false
		}
		if err != nil {
			return err, isOwn(err)
		}
		take(chunk, answer)
	}
}

func take(chunk openai.ChatCompletionStreamResponse, answer *seen) {
	if chunk.Usage != nil {
		answer.Usage = &usage{Prompt: int64(chunk.Usage.PromptTokens), Completion: int64(chunk.Usage.CompletionTokens)}
	}
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			continue
		}
		answer.Text += choice.Delta.Content
		for _, call := range choice.Delta.ToolCalls {
			index := 0
			if call.Index != nil {
				index = *call.Index
			}
			answer.call(int64(index), call.Function.Name, call.Function.Arguments)
		}
		answer.finish(string(choice.FinishReason))
	}
}

func isOwn(err error) bool {
	var api *openai.APIError
	var request *openai.RequestError
	return errors.As(err, &api) || errors.As(err, &request)
}
