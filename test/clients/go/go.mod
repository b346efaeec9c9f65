module understudy/client

go 1.22

require github.com/sashabaranov/go-openai v1.41.2
