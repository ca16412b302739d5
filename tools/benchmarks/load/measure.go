// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

const (
	grace          = 5 * time.Second       // for unanswered requests at the end
	pauseOnFailure = 10 * time.Millisecond // prevents a tight loop of requests to an ended server

	readyPerSecond = 800 // prepared workloads for each second of the run
	maxReady       = 20_000
)

// window is the measured time. A request counts if it begins in the window.
type window struct{ begin, end time.Time }

// client sends the next request directly after an answer. Only the goroutine of the client writes to
// the fields until all clients have ended.
type client struct {
	ready     []*workload     // prepared workloads, by the number of the request
	workload  *workload       // the workload of an activation over a kept connection
	latencies []time.Duration // of answers with the expected status
	statuses  map[int]int64
	failures  map[failure]int64
	last      time.Time // end of the last counted request
}

// measure runs the plan, and returns after the end of all clients: at most after warm-up, duration and
// grace. Every request with its begin in the window counts, even if it ends later.
func measure(p *plan) report {
	ready := prepare(p)
	begin := time.Now().Add(p.warmup)
	counted := window{begin: begin, end: begin.Add(p.duration)}
	var turn atomic.Int64
	var running sync.WaitGroup
	clients := make([]*client, p.clients)
	for i := range clients {
		clients[i] = &client{ready: ready, statuses: map[int]int64{}, failures: map[failure]int64{}}
		running.Add(1)
		go func() {
			defer running.Done()
			clients[i].run(p, counted, &turn)
		}()
	}
	time.Sleep(time.Until(begin))
	server, own := serverTime(p.serverPID), ownTime()
	running.Wait()
	ended := time.Now()
	return summary(p, clients, costs{
		server:    difference(server, serverTime(p.serverPID)),
		own:       ownTime() - own,
		wallClock: ended.Sub(begin),
	}, counted)
}

// prepare makes keys, certificates and signing requests for activations over new connections, for as
// many workloads as the run probably needs. In a deployment each launcher does this work on a separate
// machine. Here all workloads share a processor, so this work would delay the requests.
func prepare(p *plan) []*workload {
	if p.types == nil || !p.newConnections {
		return nil
	}
	wanted := int64(readyPerSecond * (p.warmup + p.duration).Seconds())
	ready := make([]*workload, 0, min(wanted, p.maxRequests, maxReady))
	for len(ready) < cap(ready) {
		made, err := newWorkload(p.keys)
		if err != nil {
			break // the request repeats this step, and counts the error
		}
		ready = append(ready, made)
	}
	return ready
}

func (c *client) run(p *plan, counted window, turn *atomic.Int64) {
	var line *connection
	defer func() {
		if line != nil {
			line.close()
		}
	}()
	for {
		k := turn.Add(1) - 1
		if k >= p.maxRequests || !time.Now().Before(counted.end) {
			return
		}
		next, err := c.next(p, k)
		begun := time.Now()
		status := 0
		if err == nil {
			status, err = c.once(p, &line, next, counted)
		}
		ended := time.Now()
		if !begun.Before(counted.begin) {
			c.count(p, status, err, ended.Sub(begun))
			c.last = ended
		}
		if err != nil {
			time.Sleep(pauseOnFailure)
		}
	}
}

// task is a request with the TLS configuration of its connection.
type task struct {
	request []byte
	tls     *tls.Config
}

// next returns the request number k. As with a launcher, each workload has a new key, certificate and
// signing request. If no prepared workload is left, next makes a workload before the time of the request
// begins.
func (c *client) next(p *plan, k int64) (task, error) {
	if p.types == nil {
		return task{p.requests[k%int64(len(p.requests))], p.tls}, nil
	}
	if p.newConnections && k < int64(len(c.ready)) {
		c.workload, c.ready[k] = c.ready[k], nil
	} else if c.workload == nil || p.newConnections {
		made, err := newWorkload(p.keys)
		if err != nil {
			return task{}, failedWorkload
		}
		c.workload = made
	}
	marbleType := string(p.types[k%int64(len(p.types))])
	return task{c.workload.request(marbleType), c.workload.config(p)}, nil
}

// once sends a request over *line. If *line is nil, once opens a connection. After closing the
// connection, once sets *line to nil.
func (c *client) once(p *plan, line **connection, next task, counted window) (int, error) {
	if *line == nil {
		opened, err := open(p, next.tls, counted.end.Add(grace))
		if err != nil {
			return 0, err
		}
		*line = opened
	}
	status, closing, err := (*line).send(p, next.request)
	if err != nil || closing || p.newConnections {
		(*line).close()
		*line = nil
	}
	return status, err
}

func (c *client) count(p *plan, status int, err error, took time.Duration) {
	if err != nil {
		kind := failedReceive
		errors.As(err, &kind)
		c.failures[kind]++
		return
	}
	c.statuses[status]++
	if status == p.expected {
		c.latencies = append(c.latencies, took)
	}
}
