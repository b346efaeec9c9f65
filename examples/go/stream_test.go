// A client of streams against a server that disturbs them: start, order a fault, see the client fail, stop.
package understudy

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// start runs the server that UNDERSTUDY names (a command, by default the one on the path) and gives its URL.
func start(t *testing.T) string {
	command := strings.Fields(os.Getenv("UNDERSTUDY"))
	if len(command) == 0 {
		command = []string{"understudy"}
	}
	ready := filepath.Join(t.TempDir(), "ready.json")
	words := append(command[1:], "serve", "--port", "0", "--timing", "none", "--ready-file", ready, "--exit-with-parent")
	server := exec.Command(command[0], words...)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Signal(os.Interrupt); server.Wait() })
	for range 600 {
		var listening struct{ URL string }
		if text, err := os.ReadFile(ready); err == nil && json.Unmarshal(text, &listening) == nil {
			return listening.URL
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the server did not start")
	return ""
}

// complete is the client under test: it reads a stream to its end.
func complete(url, fault string) (string, error) {
	body := `{"prompt": "Hello", "stream": true, "max_tokens": 20, "understudy": {"fault": "` + fault + `"}}`
	answer, err := http.Post(url+"/v1/completions", "application/json", bytes.NewBufferString(body))
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

func TestStream(t *testing.T) {
	url := start(t)
	if text, err := complete(url, "B4"); err != nil || !strings.Contains(text, "[DONE]") {
		t.Fatalf("events that are split over segments: %q, %v", text, err)
	}
	if text, err := complete(url, "E6@e5"); err == nil {
		t.Fatalf("a stream that breaks off is an error, not %q", text)
	}
}
