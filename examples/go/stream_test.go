package understudy // Tests a client of streams: starts a server, orders a fault in an answer, and checks that the client reports an error.

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestAStreamThatBreaksOffIsAnError(t *testing.T) {
	ready := t.TempDir() + "/ready.json"
	server := exec.Command("sh", "-c", "exec ${UNDERSTUDY:-understudy} serve --port 0 --timing none --exit-with-parent --ready-file "+ready)
	t.Cleanup(func() { server.Process.Signal(os.Interrupt); server.Wait() })
	server.Start()
	listening, text := struct{ URL string }{}, []byte{}
	for ; json.Unmarshal(text, &listening) != nil; text, _ = os.ReadFile(ready) {
		time.Sleep(50 * time.Millisecond)
	}
	for fault, isWhole := range map[string]bool{"B4": true, "E6@e5": false} {
		order := strings.NewReader(`{"prompt": "Hello", "stream": true, "understudy": {"fault": "` + fault + `"}}`)
		answer, _ := http.Post(listening.URL+"/v1/completions", "application/json", order)
		if _, err := io.ReadAll(answer.Body); (err == nil) != isWhole {
			t.Errorf("%s: %v", fault, err)
		}
	}
}
