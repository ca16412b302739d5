// SPDX-License-Identifier: Apache-2.0

// Load sends requests to an HTTPS server on this machine for a bounded time. It prints a JSON object
// with the number of answers, the latencies, and the processor time of the server.
//
//	load -url https://127.0.0.1:4433/api/v2/status -clients 32 -seconds 2 -pid 4711
//	load -url https://127.0.0.1:4433/api/v2/secrets -method POST -bodies lines -cert u.crt -key u.key
//	load -url https://127.0.0.1:4433/api/v2/status -clients 8 -new-connections -curve p256
//	load -url https://127.0.0.1:2001/ -activate types -clients 16 -new-connections -workload-keys p384
//
// The program refuses every address outside of loopback, because it does not verify certificates, and
// must not load machines of other people. Exit codes: 0 measured (errors are in the report), 1 the
// report could not be written, 2 invalid command line.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	plan, err := planFromArguments(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(2)
	}
	report := measure(plan)
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		fmt.Fprintln(os.Stderr, "error: the report could not be written")
		os.Exit(1)
	}
}
