// Probe is what the cluster's tests run in Pods: it says what it can see from there.
package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	switch verb, rest := os.Args[1], os.Args[2:]; verb {
	case "say":
		fmt.Println(strings.Join(rest, " "))
	case "exit":
		code, _ := strconv.Atoi(rest[0])
		os.Exit(code)
	case "sleep":
		time.Sleep(time.Hour)
	case "serve": // address, text
		_ = http.ListenAndServe(rest[0], http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, rest[1]) }))
	case "write": // file, text
		if err := os.WriteFile(rest[0], []byte(rest[1]), 0o600); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(rest[1])
	case "read": // file
		text, err := os.ReadFile(rest[0])
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Println(string(text))
	case "get":
		text, err := get(rest[0])
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Print(text)
	case "look": // addresses; a line for each, with the answer's status or why there is none
		answers := make([]string, len(rest))
		var asked sync.WaitGroup
		for i, url := range rest {
			asked.Add(1)
			go func(i int, url string) {
				defer asked.Done()
				text, err := get(url)
				if err != nil {
					text = err.Error()
				}
				answers[i] = strings.SplitN(text, "\n", 2)[0]
			}(i, url)
		}
		asked.Wait()
		fmt.Println(strings.Join(answers, "\n"))
	}
}

// get is the answer's status and text; with a ServiceAccount's token where the Pod has one.
func get(url string) (string, error) {
	request, _ := http.NewRequest(http.MethodGet, url, nil)
	if token, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/token"); err == nil {
		request.Header.Set("Authorization", "Bearer "+string(token))
	}
	client := http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	text, _ := io.ReadAll(response.Body)
	return fmt.Sprintln(response.StatusCode, string(text)), nil
}
