// A registry that keeps what is pushed in memory: distribution's own handlers on a port of loopback.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
)

const settings = `
version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage: {inmemory: {}, delete: {enabled: true}}
`

func main() {
	text := settings
	if len(os.Args) > 1 {
		text += "auth: {htpasswd: {realm: tests, path: " + os.Args[1] + "}}\n"
	}
	chosen, err := configuration.Parse(strings.NewReader(text))
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	panic(http.Serve(listener, handlers.NewApp(context.Background(), chosen)))
}
