// A client of streams against a server that disturbs them: start, order a fault, see the client fail, stop.
package understudy

import (
	"cmp"
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
	// The server that UNDERSTUDY names: a command, by default the one on the path.
	ready := t.TempDir() + "/ready.json"
	command := cmp.Or(os.Getenv("UNDERSTUDY"), "understudy")
	flags := " serve --port 0 --timing none --exit-with-parent --ready-file " + ready
	server := exec.Command("sh", "-c", "exec "+command+flags)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Signal(os.Interrupt); server.Wait() })
	var listening struct{ URL string }
	for text := []byte{}; json.Unmarshal(text, &listening) != nil; text, _ = os.ReadFile(ready) {
		time.Sleep(50 * time.Millisecond)
	}
	for fault, isWhole := range map[string]bool{"B4": true, "E6@e5": false} {
		body := strings.NewReader(`{"prompt": "Hello", "stream": true, "understudy": {"fault": "` + fault + `"}}`)
		answer, err := http.Post(listening.URL+"/v1/completions", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(answer.Body); (err == nil) != isWhole {
			t.Errorf("%s: %v", fault, err)
		}
	}
}
