// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestOnlyLoopbackByNumberIsAccepted(t *testing.T) {
	for _, refused := range []string{
		"", "127.0.0.1:1", "http://127.0.0.1:1/", "https://127.0.0.1/", "https://localhost:1/",
		"https://10.0.0.1:1/", "https://example.com:1/", "https://[2001:db8::1]:1/", "https://0.0.0.0:1/",
		"https://127.0.0.1.example.com:1/", "https://127.0.0.1@example.com:1/",
	} {
		if _, err := planFromArguments([]string{"-url", refused}); err == nil {
			t.Errorf("%q was accepted", refused)
		}
	}
	for _, accepted := range []string{"https://127.0.0.1:1/", "https://127.8.9.1:1/x?y", "https://[::1]:1/"} {
		if _, err := planFromArguments([]string{"-url", accepted}); err != nil {
			t.Errorf("%q was refused: %v", accepted, err)
		}
	}
}

func TestARunIsBoundedWhateverIsAskedFor(t *testing.T) {
	for _, arguments := range []string{
		"-clients 0", "-clients 5000", "-seconds 0", "-seconds 601", "-seconds NaN", "-warmup -1",
		"-max-requests 0", "-max-requests 10000001", "-curve p384", "-method PUT", "surplus",
		"-workload-keys p521", "-activate missing",
	} {
		all := append([]string{"-url", "https://127.0.0.1:1/"}, strings.Fields(arguments)...)
		if _, err := planFromArguments(all); err == nil {
			t.Errorf("%s was accepted", arguments)
		}
	}
}

func TestPercentilesAreNearestRank(t *testing.T) {
	var latencies []time.Duration
	for i := 1; i <= 100; i++ {
		latencies = append(latencies, time.Duration(i)*time.Microsecond)
	}
	for fraction, want := range map[float64]float64{0.5: 50, 0.9: 90, 0.99: 99, 1: 100} {
		if got := percentile(latencies, fraction); got != want {
			t.Errorf("percentile %v is %v, want %v", fraction, got, want)
		}
	}
	if percentile(nil, 0.5) != 0 || percentile(latencies[:1], 0.99) != 1 {
		t.Error("no or one latency is read wrongly")
	}
}

// seen has the requests to a test server.
type seen struct {
	sync.Mutex
	bodies, paths map[string]int
	connections   map[string]int
}

func server(t *testing.T, status func(*http.Request) int) (*httptest.Server, *seen) {
	t.Helper()
	asked := &seen{bodies: map[string]int{}, paths: map[string]int{}, connections: map[string]int{}}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked.Lock()
		asked.bodies[string(body)]++
		asked.paths[r.URL.RequestURI()]++
		asked.connections[r.RemoteAddr]++
		asked.Unlock()
		w.WriteHeader(status(r))
		_, _ = w.Write([]byte(`{"status":"success"}`))
	}))
	t.Cleanup(s.Close)
	return s, asked
}

func ok(*http.Request) int { return http.StatusOK }

// okFrom answers only after requests on the given number of connections. Otherwise a single fast client
// could send all requests.
func okFrom(connections int) func(*http.Request) int {
	var mutex sync.Mutex
	known, all := map[string]bool{}, make(chan struct{})
	return func(r *http.Request) int {
		mutex.Lock()
		if !known[r.RemoteAddr] {
			known[r.RemoteAddr] = true
			if len(known) == connections {
				close(all)
			}
		}
		mutex.Unlock()
		<-all
		return http.StatusOK
	}
}

func run(t *testing.T, arguments ...string) report {
	t.Helper()
	p, err := planFromArguments(append([]string{"-warmup", "0"}, arguments...))
	if err != nil {
		t.Fatal(err)
	}
	return measure(p)
}

func written(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestKeptConnectionsAreOnePerClientAndBodiesTakeTurns(t *testing.T) {
	s, asked := server(t, okFrom(3))
	r := run(t, "-url", s.URL+"/secrets", "-method", "POST", "-bodies", written(t, "a\nbb\n"),
		"-clients", "3", "-max-requests", "30")
	if r.Requests != 30 || r.Errors != 0 || r.Statuses["200"] != 30 || len(asked.connections) != 3 {
		t.Errorf("%+v over %d connections", r, len(asked.connections))
	}
	if asked.bodies["a"] != 15 || asked.bodies["bb"] != 15 {
		t.Errorf("bodies: %v", asked.bodies)
	}
	if r.RequestsPerSecond <= 0 || r.Latency.P50 <= 0 || r.Latency.Max < r.Latency.P99 {
		t.Errorf("%+v", r)
	}
}

func TestTargetsTakeTurns(t *testing.T) {
	s, asked := server(t, ok)
	run(t, "-url", s.URL, "-targets", written(t, "/x?s=1\n/x?s=2\n"), "-clients", "1", "-max-requests", "4")
	if asked.paths["/x?s=1"] != 2 || asked.paths["/x?s=2"] != 2 {
		t.Errorf("paths: %v", asked.paths)
	}
}

func TestNewConnectionsAreNewEachTime(t *testing.T) {
	for _, curve := range []string{"p256", "x25519", "hybrid"} {
		s, asked := server(t, ok)
		r := run(t, "-url", s.URL, "-new-connections", "-curve", curve, "-clients", "2", "-max-requests", "10")
		if r.Errors != 0 || len(asked.connections) != 10 {
			t.Errorf("%s: %+v over %d connections", curve, r, len(asked.connections))
		}
	}
}

func TestOtherStatusesAndFailuresAreErrors(t *testing.T) {
	s, _ := server(t, func(*http.Request) int { return http.StatusServiceUnavailable })
	r := run(t, "-url", s.URL, "-clients", "1", "-max-requests", "3")
	if r.Errors != 3 || r.Statuses["503"] != 3 || r.RequestsPerSecond != 0 {
		t.Errorf("%+v", r)
	}
	s.Close()
	r = run(t, "-url", s.URL, "-clients", "1", "-max-requests", "3")
	if r.Errors != 3 || r.Failures["connect"] != 3 {
		t.Errorf("%+v", r)
	}
}

func TestCPUTimeOfChildrenCounts(t *testing.T) {
	child := exec.Command("sh", "-c", "while :; do :; done")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	for used := time.Duration(0); used == 0; {
		all, own := serverTime(os.Getpid()), ownServerTime(os.Getpid())
		if all == nil || own == nil {
			t.Fatal("the CPU time of this process is unknown")
		}
		used = *all - *own
	}
}

func TestCPUTimeOfAProcessIsReported(t *testing.T) {
	s, _ := server(t, ok)
	r := run(t, "-url", s.URL, "-clients", "1", "-seconds", "0.1", "-pid", "1073741824")
	if r.Server != nil {
		t.Errorf("a process that is not there cost %+v", r.Server)
	}
	if used := serverTime(os.Getpid()); used == nil {
		t.Error("the CPU time of this process is unknown")
	}
	if r.Seconds < 0.09 || r.Seconds > 2 {
		t.Errorf("it ran for %v s", r.Seconds)
	}
}
