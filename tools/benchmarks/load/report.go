// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"
	"strconv"
	"time"
)

// report is the printed JSON object. Latencies are in microseconds, shares are of one processor.
type report struct {
	Requests          int64            `json:"requests"` // answered or failed
	Errors            int64            `json:"errors"`   // failed, or answered with an unexpected status
	Statuses          map[string]int64 `json:"statuses"`
	Failures          map[string]int64 `json:"failures"`
	Seconds           float64          `json:"seconds"`
	RequestsPerSecond float64          `json:"requests_per_second"` // without errors
	Latency           latency          `json:"latency_us"`          // without errors
	LoadCPU           float64          `json:"load_cpu_share"`      // of this program
	Server            *serverCosts     `json:"server_cpu"`          // null without -pid, or if it ended
}

type latency struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// serverCosts is the CPU time of all threads of the server. The kernel counts in ticks. ResolutionUS is
// the possible error of the two readings, for each request.
type serverCosts struct {
	Share        float64 `json:"share"`
	PerRequestUS float64 `json:"us_per_request"`
	ResolutionUS float64 `json:"resolution_us_per_request"`
}

type costs struct {
	server    *time.Duration
	own       time.Duration
	wallClock time.Duration
}

func summary(p *plan, clients []*client, spent costs, counted window) report {
	result := report{Statuses: map[string]int64{}, Failures: map[string]int64{}}
	var latencies []time.Duration
	last := counted.begin
	for _, c := range clients {
		latencies = append(latencies, c.latencies...)
		for status, n := range c.statuses {
			result.Statuses[strconv.Itoa(status)] += n
			result.Requests += n
		}
		for kind, n := range c.failures {
			result.Failures[string(kind)] += n
			result.Requests += n
		}
		if c.last.After(last) {
			last = c.last
		}
	}
	slices.Sort(latencies)
	result.Errors = result.Requests - int64(len(latencies))
	result.Seconds = rounded(last.Sub(counted.begin).Seconds(), 4)
	if took := last.Sub(counted.begin).Seconds(); took > 0 {
		result.RequestsPerSecond = rounded(float64(len(latencies))/took, 1)
	}
	result.Latency = latency{
		P50: percentile(latencies, 0.5),
		P90: percentile(latencies, 0.9),
		P99: percentile(latencies, 0.99),
		Max: percentile(latencies, 1),
	}
	result.LoadCPU = rounded(spent.own.Seconds()/spent.wallClock.Seconds(), 3)
	if spent.server != nil && result.Requests > 0 {
		result.Server = &serverCosts{
			Share:        rounded(spent.server.Seconds()/spent.wallClock.Seconds(), 3),
			PerRequestUS: rounded(microseconds(*spent.server)/float64(result.Requests), 2),
			ResolutionUS: rounded(microseconds(2*tick)/float64(result.Requests), 2),
		}
	}
	return result
}

// percentile returns a percentile of sorted latencies in microseconds, by nearest rank. Without
// latencies the result is 0.
func percentile(latencies []time.Duration, fraction float64) float64 {
	if len(latencies) == 0 {
		return 0
	}
	rank := int(math.Ceil(fraction*float64(len(latencies)))) - 1
	return rounded(microseconds(latencies[max(rank, 0)]), 1)
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func rounded(value float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(value*scale) / scale
}
