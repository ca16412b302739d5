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
	grace          = 5 * time.Second       // for requests that are under way at the end
	pauseOnFailure = 10 * time.Millisecond // a server that is gone is not asked in a tight loop

	readyPerSecond = 800 // workloads whose papers are made before the clock starts
	maxReady       = 20_000
)

// window is the time in which a request must begin to be counted.
type window struct{ begin, end time.Time }

// client is one caller that asks again as soon as it has its answer. Only its goroutine writes here
// until all have ended.
type client struct {
	ready     []*workload     // whose papers are made, by the number of the request
	workload  *workload       // who it is, where it activates over a kept connection
	latencies []time.Duration // of answers with the expected status
	statuses  map[int]int64
	failures  map[failure]int64
	last      time.Time // when the last counted request ended
}

// measure runs the plan and returns after all its clients have ended: at most warm-up, duration
// and grace later. Every request that begins in the window counts, however late it ends.
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

// prepare makes the keys and papers of the workloads that activate over a connection of their own, as
// many as may get their turn. Each launcher has a machine for this work; here all share one with
// each other, and would have the server wait for them.
func prepare(p *plan) []*workload {
	if p.types == nil || !p.newConnections {
		return nil
	}
	wanted := int64(readyPerSecond * (p.warmup + p.duration).Seconds())
	ready := make([]*workload, 0, min(wanted, p.maxRequests, maxReady))
	for len(ready) < cap(ready) {
		made, err := newWorkload(p.keys)
		if err != nil {
			break // the request itself meets the error again, and counts it
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

// task is one request, and the TLS configuration of a connection that is opened for it.
type task struct {
	request []byte
	tls     *tls.Config
}

// next returns the request number k. A workload's key and papers are new, as a launcher's are. Those
// that were not made beforehand are made here, before the time of the request begins.
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

// once sends one request over *line, which is opened where it is nil and set to nil once it is closed.
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
