package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// openai-go: its stream. Errors of the transport pass through it as they are, as Go has it.
func official(one asked, answer *seen) (error, bool) {
	client := openai.NewClient(
		option.WithBaseURL(one.BaseURL),
		option.WithAPIKey("none"),
		option.WithRequestTimeout(time.Duration(one.TimeoutMs)*time.Millisecond),
	)
	params := openai.ChatCompletionNewParams{
		Model:         one.Model,
		Messages:      []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say it")},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}
	for _, tool := range one.Tools {
		var offered openai.ChatCompletionToolUnionParam
		if err := json.Unmarshal(tool, &offered); err != nil {
			return err, false
		}
		params.Tools = append(params.Tools, offered)
	}
	stream := client.Chat.Completions.NewStreaming(context.Background(), params)
	defer stream.Close()
	for stream.Next() {
		chunk := stream.Current()
		if chunk.Usage.TotalTokens > 0 {
			answer.Usage = &usage{Prompt: chunk.Usage.PromptTokens, Completion: chunk.Usage.CompletionTokens}
		}
		for _, choice := range chunk.Choices {
			if choice.Index != 0 {
				continue
			}
			answer.Text += choice.Delta.Content
			for _, call := range choice.Delta.ToolCalls {
				answer.call(call.Index, call.Function.Name, call.Function.Arguments)
			}
			answer.finish(string(choice.FinishReason))
		}
	}
	var own *openai.Error
	return stream.Err(), stream.Err() != nil && errors.As(stream.Err(), &own)
}
