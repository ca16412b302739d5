// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// tick is the unit of times in /proc/PID/stat. USER_HZ is 100 on every Linux platform of Go.
const tick = 10 * time.Millisecond

// serverTime returns the CPU time (user and system) of a process and of its running children, with all
// running and ended threads. The result is nil if the process does not exist.
func serverTime(pid int) *time.Duration {
	used := ownServerTime(pid)
	if used == nil {
		return nil
	}
	// Some kernels do not have this file. Then no children count.
	listed, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, field := range bytes.Fields(listed) {
		child, err := strconv.Atoi(string(field))
		if err != nil {
			return nil
		}
		if more := ownServerTime(child); more != nil {
			*used += *more
		}
	}
	return used
}

func ownServerTime(pid int) *time.Duration {
	if pid <= 0 {
		return nil
	}
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	// The second field is the name in brackets. The name can contain brackets and blanks.
	_, after, found := lastCut(content, []byte(") "))
	fields := bytes.Fields(after)
	if !found || len(fields) < 13 {
		return nil
	}
	user, errUser := strconv.ParseInt(string(fields[11]), 10, 64)     // field 14, utime
	system, errSystem := strconv.ParseInt(string(fields[12]), 10, 64) // field 15, stime
	if errUser != nil || errSystem != nil {
		return nil
	}
	used := time.Duration(user+system) * tick
	return &used
}

func lastCut(text, separator []byte) (before, after []byte, found bool) {
	at := bytes.LastIndex(text, separator)
	if at < 0 {
		return text, nil, false
	}
	return text[:at], text[at+len(separator):], true
}

func difference(before, after *time.Duration) *time.Duration {
	if before == nil || after == nil {
		return nil
	}
	used := *after - *before
	return &used
}

// ownTime returns the CPU time of this program.
func ownTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
