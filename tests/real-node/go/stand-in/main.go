// Stands in for the program of every image on the real node: browsers, sidecars, and the sandbox of a pod.
//
// It runs until it is told to stop, and waits for orphans, as the first process of a shared process namespace must. Under the
// name "profile", or with the argument "end", it ends at once, with "prepare" after a second; with the argument "eat" it takes memory
// until the kernel stops it.
package main

import (
	"os"
	"os/signal"
	"path"
	"syscall"
	"time"
)

func eat() {
	var eaten [][]byte
	for {
		piece := make([]byte, 1<<20)
		for i := 0; i < len(piece); i += 4096 {
			piece[i] = 1
		}
		eaten = append(eaten, piece)
		time.Sleep(time.Millisecond)
	}
}

func main() {
	switch {
	case path.Base(os.Args[0]) == "profile", len(os.Args) > 1 && os.Args[1] == "end":
		return
	case len(os.Args) > 1 && os.Args[1] == "prepare":
		time.Sleep(time.Second)
		return
	case len(os.Args) > 1 && os.Args[1] == "eat":
		eat()
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		var status syscall.WaitStatus
		for {
			child, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if err != nil || child <= 0 {
				break
			}
		}
	}
}
