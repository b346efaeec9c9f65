#!/usr/bin/env bash
# curl: an answer in one piece, a stream, an error.
url=$1
body='{"model": "m", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5'
post() { curl -sS -N -w '\n%{http_code}' -H 'Content-Type: application/json' "$url/v1/chat/completions" -d "$1"; }
check() { # name, text, patterns that it must have
  local name=$1 text=$2
  shift 2
  for wanted in "$@"; do
    case $text in *"$wanted"*) ;; *) printf '{"check": "%s", "error": "%s is missing"}\n' "$name" "${wanted//\"/}"; return ;; esac
  done
  printf '{"check": "%s"}\n' "$name"
}
check results "$(post "$body}")" '"object":"chat.completion"' '"completion_tokens":5' 200
check stream "$(post "$body, \"stream\": true}")" 'data: {"id":"chatcmpl-' '"finish_reason":"length"' 'data: [DONE]' 200
check errors "$(post '{"model": "nobody", "messages": []}')" '"type":"NotFoundError"' '"code":404' 404
